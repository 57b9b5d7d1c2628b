// The data of an ELargeConfig: mixture and eval_mixture, and what they say about the trainer's rows.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/elarge/config/elarge_config.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

// The keys of a trainer, with those that are given under any of their names.
class TrainerKeys {
 public:
  TrainerKeys(std::string type, const Json* given) : type_(std::move(type)) {
    TrainingArguments arguments;
    fields_ = collect_fields([&](FieldVisitor& v) { list_fields(arguments, type_, v); });
    if (given) given_ = *given;
  }

  const std::string& type() const { return type_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool gives(std::string_view key) const {
    const FieldValue* field = find(key);
    if (!field) return false;
    const auto named = [&](const std::string& name) {
      const Json* value = given_.find(name);
      return value && !value->is_null();
    };
    bool found = named(field->key);
    for (const std::string& alias : field->aliases) found = found || named(alias);
    return found;
  }

 private:
  const FieldValue* find(std::string_view key) const {
    for (const FieldValue& field : fields_) {
      if (field.key == key) return &field;
    }
    return nullptr;
  }

  std::string type_;
  std::vector<FieldValue> fields_;
  Json given_ = Json::object();
};

bool is_on_hub(const data::DatasetOptions& inform) {
  std::error_code ignored;
  if (!inform.dataset_name.empty() && !std::filesystem::exists(inform.dataset_name, ignored)) return true;
  if (inform.type.find('/') != std::string::npos) return true;
  return std::any_of(inform.data_files.begin(), inform.data_files.end(), [&](const std::string& file) {
    return file.starts_with("hub://") ||
           ((inform.type == "huggingface" || inform.type == "hf") && !std::filesystem::exists(file, ignored));
  });
}

}  // namespace

MixtureSection ELargeConfig::read_mixture(const std::string& name) const {
  const bool is_eval = name == "eval_mixture";
  MixtureSection section = read<MixtureSection>({name}, is_eval ? Tables{"eval_mixture", "mixture"} : Tables{"mixture"},
                                                {"informs", "tokenization"});
  if (const Json* informs = find({name, "informs"})) {
    require<ConfigError>(informs->is_array(), where({name, "informs"}), " must be a list of data sets; got ",
                         informs->dump(), ".");
    for (std::size_t i = 0; i < informs->size(); ++i) {
      const YamlPath path = {name, "informs", std::to_string(i)};
      require<ConfigError>(informs->at(i).is_object(), where(path), " must be a mapping; got ", informs->at(i).dump(),
                           ".");
      const auto inform = read<data::DatasetOptions>(
          path, is_eval ? Tables{"eval_mixture.informs", "mixture.informs"} : Tables{"mixture.informs"});
      require<ConfigError>(!inform.type.empty() || !inform.dataset_name.empty() || !inform.data_files.empty(),
                           where(path), " must specify its data: type, dataset_name or data_files.");
      require<ConfigError>(inform.revision == "main" || is_on_hub(inform), where(below(path, "revision")),
                           " applies only to data sets on the hub; got \"", inform.revision, "\" for local files.");
      require<ConfigError>(!inform.weight || (std::isfinite(*inform.weight) && *inform.weight >= 0),
                           where(below(path, "weight")), " must be a finite number that is not negative; got ",
                           inform.weight.value_or(0), ".");
      require<ConfigError>(inform.num_rows.value_or(1) >= 1, where(below(path, "num_rows")),
                           " must be at least 1; got ", inform.num_rows.value_or(1), ".");
      section.informs.push_back(inform);
    }
  }
  if (find({name, "tokenization"})) {
    section.tokenization = read<TokenizationSection>({name, "tokenization"}, {"mixture.tokenization"});
    const Json& padding = section.tokenization->padding;
    const YamlPath path = {name, "tokenization"};
    require<ConfigError>(padding.is_bool() || padding.is_null() || padding == Json("longest") ||
                             padding == Json("max_length") || padding == Json("do_not_pad"),
                         where(below(path, "padding")), " must be true, false, longest or max_length; got ",
                         padding.dump(), ".");
    require<ConfigError>(section.tokenization->max_length.value_or(1) >= 1, where(below(path, "max_length")),
                         " must be at least 1; got ", section.tokenization->max_length.value_or(1), ".");
  }
  for (const auto& [key, value] : {std::pair("mixture_block_size", section.mixture_block_size),
                                   std::pair("shuffle_buffer_size", section.shuffle_buffer_size.value_or(1)),
                                   std::pair("pack_seq_length", section.pack_seq_length.value_or(1))}) {
    require<ConfigError>(value >= 1, where({name, key}), " must be at least 1; got ", value, ".");
  }
  for (const auto& [key, value] : {std::pair("prefetch_workers", section.prefetch_workers.value_or(0)),
                                   std::pair("prefetch_buffer_size", section.prefetch_buffer_size),
                                   std::pair("seed", section.shuffle_seed.value_or(0))}) {
    require<ConfigError>(value >= 0, where({name, key}), " must not be negative; got ", value, ".");
  }
  const std::string& stop = section.stop_strategy;
  require<ConfigError>(stop == "restart" || stop == "longest" || stop == "all_exhausted" || stop == "first_exhausted",
                       where({name, "stop_strategy"}),
                       " must be restart, longest, all_exhausted or first_exhausted; got \"", stop, "\".");
  return section;
}

MixtureSection ELargeConfig::mixture() const { return read_mixture("mixture"); }

std::optional<MixtureSection> ELargeConfig::eval_mixture() const {
  if (!has("eval_mixture")) return std::nullopt;
  return read_mixture("eval_mixture");
}

// What the trainer does not say comes from here; what both say has to be the same.
void ELargeConfig::apply_mixture(TrainingArguments& arguments) const {
  const MixtureSection section = mixture();
  const TokenizationSection tokenization = section.tokenization.value_or(TokenizationSection{});
  const TrainerKeys trainer(trainer_type(), find({"trainer"}));
  const auto take = [&](const YamlPath& path, const char* key, const auto& value, auto& argument) {
    require<NotSupportedError>(trainer.has(key), where(path), " is not supported with the trainer \"", trainer.type(),
                               "\"; got ", find(path)->dump(), ".");
    if (trainer.gives(key)) {
      require<ConfigError>(
          argument == value, where(path), " and trainer.", key, " must be the same; got ", find(path)->dump(), " and ",
          find({"trainer", key}) ? find({"trainer", key})->dump() : "another", ". Remove one of them.");
    }
    argument = value;
  };
  if (section.pack_tokens) take({"mixture", "pack_tokens"}, "packing", true, arguments.text.packing);
  if (section.pack_seq_length) {
    const YamlPath path{"mixture", "pack_seq_length"};
    require<ConfigError>(arguments.text.packing, where(path), " needs pack_tokens: true.");
    require<ConfigError>(!tokenization.max_length || tokenization.max_length == section.pack_seq_length, where(path),
                         " and mixture.tokenization.max_length must be the same; got ", *section.pack_seq_length,
                         " and ", tokenization.max_length.value_or(0), ". Remove one of them.");
    take(path, "max_length", section.pack_seq_length, arguments.max_length);
  }
  const YamlPath path{"mixture", "tokenization"};
  if (tokenization.max_length)
    take(below(path, "max_length"), "max_length", tokenization.max_length, arguments.max_length);
  if (tokenization.add_special_tokens)
    take(below(path, "add_special_tokens"), "add_special_tokens", *tokenization.add_special_tokens,
         arguments.text.add_special_tokens);
  if (tokenization.text_field) {
    take(below(path, "text_field"), "dataset_text_field", tokenization.text_field, arguments.text.dataset_text_field);
  } else if (find({"mixture", "text_target_field"}) && trainer.has("dataset_text_field")) {
    take({"mixture", "text_target_field"}, "dataset_text_field", std::optional(section.text_target_field),
         arguments.text.dataset_text_field);
  }
  require<ConfigError>(!tokenization.pads_to_max_length() || arguments.max_length, where(below(path, "padding")),
                       " needs a max_length.");
  if (section.prefetch_workers && arguments.dataloader_num_workers.value_or(0) != 0)
    take({"mixture", "prefetch_workers"}, "dataloader_num_workers", section.prefetch_workers,
         arguments.dataloader_num_workers);
  if (section.shuffle_seed)
    take({"mixture", "seed"}, "shuffle_seed_train", *section.shuffle_seed, arguments.shuffle_seed_train);
}

}  // namespace easydel
