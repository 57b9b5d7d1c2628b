#include "easydel/elarge/config/key_table.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/elarge/config/sections.h"
#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {
namespace {

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string row(std::string_view key, std::string_view type, std::string_view value, std::string_view text) {
  return concat("| `", cell(key), "` | ", cell(type), " | ", value.empty() ? "" : concat("`", cell(value), "`"), " | ",
                cell(text), " |\n");
}

std::string head(std::string_view title) {
  return concat("\n### ", title, "\n\n| key | type | default | what it does |\n|---|---|---|---|\n");
}

template <class Section>
std::vector<FieldValue> fields_of() {
  Section section;
  return collect_fields([&](FieldVisitor& v) { list_fields(section, v); });
}

std::string field_rows(const std::vector<FieldValue>& fields) {
  std::string rows;
  for (const FieldValue& field : fields) rows += row(field.key, field.type, field.value.dump(), field.help);
  return rows;
}

std::string other_rows(std::string_view section) {
  std::string rows;
  for (const OtherKey& key : other_keys(section)) {
    rows += key.is_noted() ? row(key.name, "", "", concat("No effect; a note is printed. ", key.says))
                           : row(key.name, "", key.accepted, concat("Any other value is refused. ", key.says));
  }
  return rows;
}

template <class Section>
std::string section(std::string_view title, std::string_view table) {
  return head(title) + field_rows(fields_of<Section>()) + other_rows(table);
}

std::string trainer_rows() {
  TrainingArguments defaults;
  const std::vector<FieldValue> common = collect_fields([&](FieldVisitor& v) { list_fields(defaults, v); });
  std::string text = concat(head("trainer"), row("trainer_type", "a string", "\"sft\"", [] {
                              std::string names;
                              for (const std::string& type : trainer_types())
                                names += (names.empty() ? "" : ", ") + type;
                              return names + ".";
                            }()));
  text += field_rows(common);
  for (const std::string& type : trainer_types()) {
    TrainingArguments own = TrainingArguments::for_trainer(type);
    std::vector<FieldValue> fields = collect_fields([&](FieldVisitor& v) { list_fields(own, type, v); });
    std::erase_if(fields, [&](const FieldValue& field) {  // what is as above
      return std::any_of(common.begin(), common.end(),
                         [&](const FieldValue& other) { return other.key == field.key && other.value == field.value; });
    });
    if (!fields.empty()) text += head(concat("trainer, with trainer_type: ", type)) + field_rows(fields);
  }
  return text;
}

}  // namespace

std::string elarge_key_table() {
  std::string text = section<ModelSection>("model, teacher_model, reference_model, reward_model, value_model", "");
  text += head("model.extra_kwargs") + row("revision", "a string", "\"main\"", "Branch, tag or commit on the hub.") +
          row("…", "", "", "A key of the model's config, as in base_config.values.") + other_rows("model.extra_kwargs");
  text += section<LoaderSection>("loader", "loader");
  text += section<ShardingSection>("sharding", "sharding");
  text += section<PlatformSection>("platform", "platform");
  text += section<QuantizationSection>("quantization", "quantization");
  text += section<BaseConfigSection>("base_config", "");
  text += head("base_config.values") + row("…", "", "", "A key of the model's config: `easydel models` lists them.") +
          other_rows("base_config.values");
  text += section<MixtureSection>("mixture", "mixture");
  text += section<data::DatasetOptions>("mixture.informs, each of the list", "mixture.informs");
  text += section<TokenizationSection>("mixture.tokenization", "mixture.tokenization");
  text += head("eval_mixture") + row("…", "", "", "As in mixture, except for these:") + other_rows("eval_mixture");
  text += head("eval_mixture.informs") + row("…", "", "", "As in mixture.informs, except for these:") +
          other_rows("eval_mixture.informs");
  text += trainer_rows();
  text += section<EvalSection>("eval", "eval");
  text += section<EsurgeSection>("esurge", "esurge");
  text += section<ServeSection>("serve", "");
  return text.substr(1);
}

}  // namespace easydel
