// An ELargeConfig as a whole: what its sections need from each other, what has no meaning here, and all of it written
// out.
#include "easydel/core/error.h"
#include "easydel/elarge/elarge_config.h"
#include "easydel/elarge/section_keys.h"
#include "easydel/infra/field_visitor.h"

namespace easydel {
namespace {

template <class Section>
Json fields_of(Section section) {
  Json json = Json::object();
  for (FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(section, v); })) {
    json[field.key] = std::move(field.value);
  }
  return json;
}

Json fields_of_mixture(const MixtureSection& mixture) {
  Json json = fields_of(mixture), informs = Json::array();
  for (const InformSection& inform : mixture.informs) informs.push_back(fields_of(inform));
  json["informs"] = std::move(informs);
  if (mixture.tokenization) json["tokenization"] = fields_of(*mixture.tokenization);
  return json;
}

}  // namespace

void ELargeConfig::check_sections() const {
  for (const auto& [key, value] : json_.as_object()) {
    if (key == "actions" || among(key, section_names())) continue;
    const std::string near = nearest_name(key, section_names());
    fail<ConfigError>(where({key}), " is no section.", near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  require<NotSupportedError>(!has("reward_model"), where({"reward_model"}),
                             " is a section of EasyDeL's that is not supported yet: no trainer here asks for it.");
}

// A section that nothing here uses, with keys that have to be right all the same.
void ELargeConfig::check_unread(const std::string& section) const {
  const Json* json = find({section});
  if (!json) return;
  require<ConfigError>(json->is_object(), where({section}), " must be a mapping; got ", json->dump(), ".");
  check_keys({section}, {}, section);
}

void ELargeConfig::validate() const {
  const std::string type = trainer_type();
  check_sections();
  model();
  const bool has_teacher = teacher_model().has_value();
  reference_model();
  loader();
  sharding();
  base_config();
  quantization();
  for (const char* section : {"platform", "esurge"}) check_unread(section);
  const MixtureSection data = mixture();
  const auto eval_data = eval_mixture();
  eval();
  const TrainingArguments arguments = training_arguments();
  if (!has("actions")) return;
  for (const ElargeAction& action : actions()) {
    if (action.name != "train") continue;
    require<ConfigError>(!data.informs.empty(), where(action.path), " needs data: name it under mixture.informs.");
    require<ConfigError>(type != "distillation" || has_teacher, where(action.path),
                         " with the trainer distillation needs a teacher_model.");
    require<ConfigError>(!arguments.do_eval || (eval_data && !eval_data->informs.empty()),
                         where({"trainer", "do_eval"}), " needs data: name it under eval_mixture.informs.");
  }
}

std::vector<std::string> ELargeConfig::notes(bool with_trainer) const {
  std::vector<std::string> found;
  const auto note_keys = [&](const YamlPath& path, std::string_view table) {
    const Json* json = find(path);
    if (!json || !json->is_object()) return;
    for (const auto& [key, value] : json->as_object()) {
      if (among(key, section_keys(table).ignored)) found.push_back(where(below(path, key)) + " has no meaning here.");
    }
  };
  note_keys({"platform"}, "platform");
  note_keys({"quantization"}, "quantization");
  note_keys({"base_config", "values"}, "base_config.values");
  if (const Json* operations = find({"base_config", "operation_configs"}); operations && asks(*operations)) {
    found.push_back(where({"base_config", "operation_configs"}) + " has no meaning here.");
  }
  for (const std::string section : {"mixture", "eval_mixture"}) {
    note_keys({section}, section);
    if (const Json* informs = find({section, "informs"})) {
      for (std::size_t i = 0; i < informs->size(); ++i) {
        note_keys({section, "informs", std::to_string(i)}, "mixture.informs");
      }
    }
    note_keys({section, "tokenization"}, "mixture.tokenization");
  }
  if (has("esurge")) found.push_back(where({"esurge"}) + " is not used: there is no server yet.");
  note_keys({"eval"}, "eval");
  if (with_trainer && has("trainer")) {
    TrainingArguments arguments = training_arguments();
    for (const std::string& key : arguments.ignored_keys)
      found.push_back(where({"trainer", key}) + " has no meaning here.");
    arguments.ignored_keys.clear();
    for (const std::string& note : arguments.unsupported_notes()) found.push_back(where({"trainer"}) + "." + note);
  }
  return found;
}

Json ELargeConfig::normalized() const {
  Json json = Json::object({{"model", fields_of(model())}});
  if (const auto teacher = teacher_model()) json["teacher_model"] = fields_of(*teacher);
  if (const auto reference = reference_model()) json["reference_model"] = fields_of(*reference);
  json["loader"] = fields_of(loader());
  json["sharding"] = fields_of(sharding());
  json["base_config"] = fields_of(base_config());
  for (const char* section : {"platform", "quantization", "esurge"}) {
    if (const Json* given = find({section})) json[section] = *given;
  }
  if (has("mixture")) json["mixture"] = fields_of_mixture(mixture());
  if (const auto eval_data = eval_mixture()) json["eval_mixture"] = fields_of_mixture(*eval_data);
  json["trainer"] = Json::object({{"trainer_type", trainer_type()}});
  const Json arguments = training_arguments().to_json(trainer_type());
  for (const auto& [key, value] : arguments.as_object()) json["trainer"][key] = value;
  if (has("eval")) json["eval"] = fields_of(eval());
  if (const Json* given = find({"actions"})) json["actions"] = *given;
  return json;
}

}  // namespace easydel
