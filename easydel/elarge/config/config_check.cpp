// An ELargeConfig as a whole: what its sections need from each other, what has no meaning here, and all of it written
// out.
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/elarge/config/elarge_config.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/elarge/config/trained_task.h"
#include "easydel/infra/fields/field_visitor.h"

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
  for (const data::DatasetOptions& inform : mixture.informs) informs.push_back(fields_of(inform));
  json["informs"] = std::move(informs);
  if (mixture.tokenization) json["tokenization"] = fields_of(*mixture.tokenization);
  return json;
}

}  // namespace

void ELargeConfig::check_sections() const {
  for (const auto& [key, value] : json_.as_object()) {
    if (key == "actions" || among(key, section_names())) continue;
    const std::string near = nearest_name(key, section_names());
    fail<ConfigError>(where({key}), " is not a section.", near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
}

// teacher_model and reference_model see the rows of the model that learns.
void ELargeConfig::check_other_model(const std::string& section) const {
  const std::optional<ModelSection> other = read_model(section);
  if (!other) return;
  const ModelSection learns = model();
  require<NotSupportedError>(!other->tokenizer || *other->tokenizer == learns.tokenizer.value_or(learns.name_or_path),
                             where({section, "tokenizer"}), " must be the model's; got \"",
                             other->tokenizer.value_or(""), "\". Rows are tokenized once, for both models.");
  const TaskType task = other->task_type();
  require<NotSupportedError>(task == TaskType::AutoBind || task == TaskType::CausalLM, where({section, "task"}),
                             " must be causal-language-model; got \"", other->task.value_or(""), "\".");
}

void ELargeConfig::validate() const {
  const std::string type = trainer_type();
  check_sections();
  const TaskType task = model().task_type();
  const std::vector<TaskType> trained = trainable_tasks(type);
  std::string names;
  for (const TaskType each : trained) names += (names.empty() ? "" : " or ") + task_name(each);
  const bool is_trained = std::find(trained.begin(), trained.end(), task) != trained.end();
  require<ConfigError>(!has("trainer") || task == TaskType::AutoBind || is_trained, where({"model", "task"}),
                       " must be ", names, " for the trainer \"", type, "\"; got \"", model().task.value_or(""), "\".");
  check_other_model("teacher_model");
  check_other_model("reference_model");
  compute();
  const ShardingSection split = sharding();
  int64_t devices = 1;
  for (const auto& sizes : {split.axis_dims, split.dcn_axis_dims}) {
    for (const int64_t size : sizes) devices *= std::max<int64_t>(size, 1);
  }
  require<ConfigError>(split.auto_shard_model.value_or(true) || devices == 1, where({"sharding", "auto_shard_model"}),
                       " must be true on a mesh of ", devices, " devices; got false.");
  base_config();
  quantization();
  esurge();
  serve();
  const MixtureSection data = mixture();
  const auto eval_data = eval_mixture();
  require<ConfigError>(!eval_data || !find({"eval_mixture", "text_target_field"}) ||
                           eval_data->text_target_field == data.text_target_field,
                       where({"eval_mixture", "text_target_field"}), " must be the same as in mixture; got \"",
                       eval_data ? eval_data->text_target_field : "", "\" and \"", data.text_target_field, "\".");
  eval();
  const TrainingArguments arguments = training_arguments();
  if (!has("actions")) return;
  for (const ElargeAction& action : actions()) {
    if (action.name != "train") continue;
    require<ConfigError>(!data.informs.empty(), where(action.path), " needs data: list it under mixture.informs.");
    require<ConfigError>(!has_teacher(type) || has("teacher_model"), where(action.path), " with the trainer ", type,
                         " needs a teacher: --teacher, or teacher_model in the file.");
    require<ConfigError>(!arguments.do_eval || (eval_data && !eval_data->informs.empty()),
                         where({"trainer", "do_eval"}), " needs data: list it under eval_mixture.informs.");
  }
}

void ELargeConfig::note_keys(const YamlPath& path, const Tables& tables, std::vector<std::string>& found) const {
  const Json* json = find(path);
  if (!json || !json->is_object()) return;
  for (const auto& [key, value] : json->as_object()) {
    const OtherKey* other = nullptr;
    for (const std::string_view table : tables) {
      if (!other) other = other_key(table, key);
    }
    if (other && other->is_noted() && !value.is_null())
      found.push_back(concat(where(below(path, key)), " has no effect here. ", other->says));
  }
}

std::vector<std::string> ELargeConfig::notes(bool with_trainer) const {
  std::vector<std::string> found;
  for (const char* section : {"model", "teacher_model", "reference_model", "reward_model", "value_model"})
    note_keys({section, "extra_kwargs"}, {"model.extra_kwargs"}, found);
  for (const char* section : {"loader", "platform", "quantization"}) note_keys({section}, {section}, found);
  note_keys({"base_config", "values"}, {"base_config.values"}, found);
  if (const Json* operations = find({"base_config", "operation_configs"}); operations && operations->size() > 0) {
    found.push_back(where({"base_config", "operation_configs"}) +
                    " has no effect here. It configures EasyDeL's kernels.");
  }
  for (const std::string section : {"mixture", "eval_mixture"}) {
    note_keys({section}, {"mixture"}, found);
    note_keys({section, "tokenization"}, {"mixture.tokenization"}, found);
  }
  const std::string type = trainer_type();
  const auto is = [&](auto... names) { return ((type == names) || ...); };
  if (has("teacher_model") && !has_teacher(type))
    found.push_back(concat(where({"teacher_model"}), " is not used by the trainer \"", type, "\"."));
  if (has("reference_model") && !is("dpo", "kto", "bco") && !learns_from_rewards(type))
    found.push_back(concat(where({"reference_model"}), " is not used by the trainer \"", type, "\"."));
  if (has("reward_model") && !learns_from_rewards(type))
    found.push_back(concat(where({"reward_model"}), " is not used by the trainer \"", type, "\"."));
  if (has("value_model") && type != "ppo")
    found.push_back(concat(where({"value_model"}), " is not used by the trainer \"", type, "\"."));
  note_keys({"esurge"}, {"esurge"}, found);
  note_keys({"eval"}, {"eval"}, found);
  if (with_trainer && has("trainer")) {
    TrainingArguments arguments = training_arguments();
    for (const std::string& key : arguments.ignored_keys)
      found.push_back(where({"trainer", key}) + " has no effect here.");
    arguments.ignored_keys.clear();
    // A note of the trainer's begins with the key that it is about.
    for (const std::string& note : arguments.unsupported_notes()) {
      const std::size_t end = note.find(':');
      const std::string key = note.substr(0, end);
      found.push_back(where({"trainer", key}) + (end == std::string::npos ? "" : note.substr(end)));
    }
  }
  return found;
}

Json ELargeConfig::normalized() const {
  Json json = Json::object({{"model", fields_of(model())}});
  if (const auto teacher = teacher_model()) json["teacher_model"] = fields_of(*teacher);
  if (const auto reference = reference_model()) json["reference_model"] = fields_of(*reference);
  if (const auto reward = reward_model()) json["reward_model"] = fields_of(*reward);
  if (const auto value = value_model()) json["value_model"] = fields_of(*value);
  LoaderSection loading = loader();
  const ComputeSettings machine = compute();
  loading.device = machine.device.str();
  loading.dtype = machine.dtype;
  loading.param_dtype = machine.param_dtype;
  json["loader"] = fields_of(loading);
  json["sharding"] = fields_of(sharding());
  json["base_config"] = fields_of(base_config());
  for (const char* section : {"platform", "quantization", "esurge"}) {
    if (const Json* given = find({section})) json[section] = *given;
  }
  if (has("mixture")) json["mixture"] = fields_of_mixture(mixture());
  if (const auto eval_data = eval_mixture()) {
    json["eval_mixture"] = fields_of_mixture(*eval_data);
    for (const OtherKey& key : other_keys("eval_mixture")) json["eval_mixture"].as_object().erase(key.name);
  }
  json["trainer"] = Json::object({{"trainer_type", trainer_type()}});
  const Json arguments = training_arguments().to_json(trainer_type());
  for (const auto& [key, value] : arguments.as_object()) json["trainer"][key] = value;
  if (has("eval")) json["eval"] = fields_of(eval());
  if (has("serve")) json["serve"] = fields_of(serve());
  if (const Json* given = find({"actions"})) json["actions"] = *given;
  return json;
}

}  // namespace easydel
