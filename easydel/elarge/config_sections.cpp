// The sections of an ELargeConfig, read and checked.
#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/elarge/elarge_config.h"
#include "easydel/elarge/section_keys.h"
#include "easydel/infra/field_visitor.h"
#include "easydel/sharding/mesh.h"
#include "easydel/trainers/number_fields.h"

namespace easydel {
namespace {

std::vector<std::string> keys_of(const std::vector<FieldValue>& fields) {
  std::vector<std::string> keys;
  for (const FieldValue& field : fields) keys.push_back(field.key);
  return keys;
}

// An error of a part that knows no file, with the place before it.
template <class Work>
void located(const std::string& where, const Work& work) {
  try {
    work();
  } catch (const NotSupportedError& error) {
    throw NotSupportedError(where + ": " + error.what());
  } catch (const Error& error) {
    throw ConfigError(where + ": " + error.what());
  }
}

}  // namespace

void ELargeConfig::check_keys(const YamlPath& path, const std::vector<std::string>& known,
                              std::string_view table) const {
  const SectionKeys others = section_keys(table);
  for (const auto& [key, value] : find(path)->as_object()) {
    if (std::find(known.begin(), known.end(), key) != known.end() || among(key, others.ignored)) continue;
    if (among(key, others.not_yet)) {
      require<NotSupportedError>(!asks(value), where(below(path, key)),
                                 " is a key of EasyDeL's that is not supported yet; got ", value.dump(), ".");
      continue;
    }
    std::vector<std::string> all = known;
    all.insert(all.end(), others.ignored.begin(), others.ignored.end());
    all.insert(all.end(), others.not_yet.begin(), others.not_yet.end());
    const std::string near = nearest_name(key, all);
    fail<ConfigError>(where(below(path, key)), " is no key of the section ", dotted(path), ".",
                      near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
}

template <class Section>
Section ELargeConfig::read(const YamlPath& path, std::string_view table) const {
  Section section;
  const Json* json = find(path);
  if (!json) return section;
  require<ConfigError>(json->is_object(), where(path), " must be a mapping; got ", json->dump(), ".");
  const FieldList fields = [&](FieldVisitor& v) { list_fields(section, v); };
  const std::vector<FieldValue> described = collect_fields(fields);
  std::vector<std::string> known = keys_of(described);
  if constexpr (std::is_same_v<Section, MixtureSection>) known.insert(known.end(), {"informs", "tokenization"});
  check_keys(path, known, table);
  read_fields(fields, with_numbers(*json, described), [&](std::string_view key) { return where(below(path, key)); });
  return section;
}

std::optional<ModelSection> ELargeConfig::read_model(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  ModelSection section = read<ModelSection>({name}, name);
  require<ConfigError>(!section.name_or_path.empty(), where({name, "name_or_path"}),
                       " must name a directory or a model on the hub.");
  if (section.extra_kwargs.is_null()) section.extra_kwargs = Json::object();
  require<ConfigError>(section.extra_kwargs.is_object(), where({name, "extra_kwargs"}), " must be a mapping; got ",
                       section.extra_kwargs.dump(), ".");
  located(where({name, "task"}), [&] { section.task_type(); });
  return section;
}

ModelSection ELargeConfig::model() const {
  const std::optional<ModelSection> section = read_model("model");
  require<ConfigError>(section.has_value(), where({"model", "name_or_path"}),
                       " must name a directory or a model on the hub.");
  return *section;
}

std::optional<ModelSection> ELargeConfig::teacher_model() const { return read_model("teacher_model"); }
std::optional<ModelSection> ELargeConfig::reference_model() const { return read_model("reference_model"); }

LoaderSection ELargeConfig::loader() const {
  LoaderSection section = read<LoaderSection>({"loader"}, "loader");
  if (section.precision) {
    std::string lower;
    for (const char c : *section.precision) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    require<ConfigError>(lower == "default" || lower == "fastest" || lower == "high" || lower == "highest",
                         where({"loader", "precision"}), " must be one of default, fastest, high, highest; got \"",
                         *section.precision, "\".");
    section.precision = lower;
  }
  return section;
}

QuantizationSection ELargeConfig::quantization() const {
  QuantizationSection section = read<QuantizationSection>({"quantization"}, "quantization");
  require<ConfigError>(section.kv_cache.is_null() || section.kv_cache.is_object(), where({"quantization", "kv_cache"}),
                       " must be a mapping; got ", section.kv_cache.dump(), ".");
  const YamlPath path{"quantization", "model"};
  if (section.model.is_null()) return section;
  require<ConfigError>(section.model.is_object(), where(path), " must be a mapping; got ", section.model.dump(), ".");
  for (const auto& [key, value] : section.model.as_object()) {
    const std::string place = where(below(path, key));
    if (key == "dtype" || key == "quantization_method" || key == "method") {
      require<ConfigError>(value.is_string(), place, " must be the name of a method; got ", value.dump(), ".");
      section.method = value.as_string();
    } else if (key == "pattern" || key == "quantization_pattern") {
      require<ConfigError>(value.is_string(), place, " must be a regular expression; got ", value.dump(), ".");
      section.linear_pattern = value.as_string();
    } else if (key == "group_size" || key == "block_size") {
      require<ConfigError>(value.is_int() && value.as_int() > 0, place, " must be a number above zero; got ",
                           value.dump(), ".");
      section.linear_group_size = value.as_int();
    } else {
      fail<ConfigError>(place, " is no key of ", dotted(path), "; known: dtype, group_size, pattern.");
    }
  }
  return section;
}

ShardingSection ELargeConfig::sharding() const {
  const ShardingSection section = read<ShardingSection>({"sharding"}, "sharding");
  located(where({"sharding", "axis_dims"}), [&] {
    normalize(
        {.axis_dims = section.axis_dims, .axis_names = section.axis_names, .dcn_axis_dims = section.dcn_axis_dims});
  });
  if (section.zero_stage) {
    const std::string place = where({"sharding", "zero_stage"});
    require<ConfigError>(*section.zero_stage >= 1 && *section.zero_stage <= 3, place, " must be 1, 2 or 3; got ",
                         *section.zero_stage, ".");
    require<ConfigError>(section.auto_shard_model, place, " is not supported with auto_shard_model: false; got ",
                         *section.zero_stage, ". Leave auto_shard_model out.");
  }
  return section;
}

BaseConfigSection ELargeConfig::base_config() const {
  BaseConfigSection section = read<BaseConfigSection>({"base_config"}, "base_config");
  for (const auto& [key, value] :
       {std::pair("values", &section.values), {"operation_configs", &section.operation_configs}}) {
    if (value->is_null()) *value = Json::object();
    require<ConfigError>(value->is_object(), where({"base_config", key}), " must be a mapping; got ", value->dump(),
                         ".");
  }
  return section;
}

Json ELargeConfig::config_kwargs() const {
  const ShardingSection split = sharding();
  Json kwargs = Json::object({{"sharding_axis_dims", split.axis_dims},
                              {"sharding_axis_names", split.axis_names},
                              {"fsdp_is_ep_bound", split.fsdp_is_ep_bound},
                              {"sp_is_ep_bound", split.sp_is_ep_bound}});
  if (split.zero_stage) kwargs["zero_stage"] = *split.zero_stage;
  if (!split.dcn_axis_dims.empty()) kwargs["sharding_dcn_axis_dims"] = split.dcn_axis_dims;
  if (const Json cache = quantization().kv_cache; !cache.is_null()) kwargs["kv_cache_quantization_config"] = cache;
  const BaseConfigSection base = base_config();
  for (const auto& [key, value] : base.values.as_object()) {
    if (!among(key, section_keys("base_config.values").ignored)) kwargs[key] = value;
  }
  return kwargs;
}

MixtureSection ELargeConfig::read_mixture(const std::string& name) const {
  MixtureSection section = read<MixtureSection>({name}, name);
  if (const Json* informs = find({name, "informs"})) {
    require<ConfigError>(informs->is_array(), where({name, "informs"}), " must be a list of data sets; got ",
                         informs->dump(), ".");
    for (std::size_t i = 0; i < informs->size(); ++i) {
      const YamlPath path = {name, "informs", std::to_string(i)};
      require<ConfigError>(informs->at(i).is_object(), where(path), " must be a mapping; got ", informs->at(i).dump(),
                           ".");
      const InformSection inform = read<InformSection>(path, "mixture.informs");
      require<ConfigError>(inform.type || inform.dataset_name || !inform.data_files.values.empty(), where(path),
                           " must say where its rows are: type, dataset_name or data_files.");
      require<ConfigError>(!inform.weight || (std::isfinite(*inform.weight) && *inform.weight >= 0),
                           where(below(path, "weight")), " must be a finite number that is not negative; got ",
                           inform.weight.value_or(0), ".");
      require<ConfigError>(inform.num_rows.value_or(1) >= 1, where(below(path, "num_rows")),
                           " must be at least 1; got ", inform.num_rows.value_or(1), ".");
      section.informs.push_back(inform);
    }
  }
  if (find({name, "tokenization"})) {
    section.tokenization = read<TokenizationSection>({name, "tokenization"}, "mixture.tokenization");
  }
  for (const auto& [key, value] :
       {std::pair("batch_size", section.batch_size), std::pair("mixture_block_size", section.mixture_block_size),
        std::pair("shuffle_buffer_size", section.shuffle_buffer_size.value_or(1)),
        std::pair("pack_seq_length", section.pack_seq_length.value_or(1))}) {
    require<ConfigError>(value >= 1, where({name, key}), " must be at least 1; got ", value, ".");
  }
  return section;
}

MixtureSection ELargeConfig::mixture() const { return read_mixture("mixture"); }

std::optional<MixtureSection> ELargeConfig::eval_mixture() const {
  if (!has("eval_mixture")) return std::nullopt;
  return read_mixture("eval_mixture");
}

EvalSection ELargeConfig::eval() const { return read<EvalSection>({"eval"}, "eval"); }

std::string ELargeConfig::trainer_type() const {
  const Json* trainer = find({"trainer"});
  require<ConfigError>(!trainer || trainer->is_object(), where({"trainer"}), " must be a mapping; got ",
                       trainer ? trainer->dump() : "", ".");
  const Json* type = find({"trainer", "trainer_type"});
  if (!type) return "sft";
  require<ConfigError>(type->is_string(), where({"trainer", "trainer_type"}), " must be a string; got ", type->dump(),
                       ".");
  std::string name;
  for (const char c : type->as_string()) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  require_trainer_type(name, where({"trainer", "trainer_type"}));
  return name;
}

TrainingArguments ELargeConfig::training_arguments() const {
  const std::string type = trainer_type();
  const Json* trainer = find({"trainer"});
  return TrainingArguments::from_json(type, trainer ? *trainer : Json::object(),
                                      [&](std::string_view key) { return where({"trainer", std::string(key)}); });
}

}  // namespace easydel
