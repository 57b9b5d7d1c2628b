#include "easydel/infra/config/auto_config.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/files/text_part.h"
#include "easydel/infra/registry.h"

namespace easydel {
namespace {

// Null: the files are read as what they are.
const TextPart* text_part_for(const std::string& model_type, TaskType task) {
  const TextPart* part = find_text_part(model_type);
  if (!part || !Registry::instance().has_config(model_type)) return part;
  const std::vector<TaskType> tasks = Registry::instance().tasks(model_type);
  return task == TaskType::CausalLM && std::find(tasks.begin(), tasks.end(), task) == tasks.end() ? part : nullptr;
}

}  // namespace

std::unique_ptr<BaseConfig> AutoConfig::from_dict(const Json& json, const ConfigOptions& options,
                                                  const std::string& where) {
  return from_dict(TaskType::AutoBind, json, options, where);
}

std::unique_ptr<BaseConfig> AutoConfig::from_dict(TaskType task, const Json& json, const ConfigOptions& options,
                                                  const std::string& where) {
  const std::string prefix = "[AutoConfig] " + (where.empty() ? "" : where + ": ");
  const Json* overridden = options.overrides.find("model_type");
  const Json* model_type = overridden ? overridden : json.find("model_type");
  require<ConfigError>(model_type && model_type->is_string(), prefix, "model_type must be a string; got ",
                       model_type ? model_type->dump() : "none", ". An override can set it.");
  const TextPart* part = overridden ? nullptr : text_part_for(model_type->as_string(), task);
  const Json text = part ? text_config_of(*part, json, prefix) : Json();
  const Json& read = part ? text : json;
  const std::string of = part ? concat(prefix, "the text of model_type \"", part->model_type, "\": ") : prefix;
  auto config =
      Registry::instance().make_config(part ? text.at("model_type").as_string() : model_type->as_string(), of);
  read_config(*config, read, where, options);
  return config;
}

std::unique_ptr<BaseConfig> AutoConfig::from_pretrained(const std::string& name_or_path, const ConfigOptions& options) {
  return for_task(TaskType::AutoBind, name_or_path, options);
}

std::unique_ptr<BaseConfig> AutoConfig::for_task(TaskType task, const std::string& name_or_path,
                                                 const ConfigOptions& options) {
  const ConfigFile file = load_config_file(name_or_path, options);
  auto config = from_dict(task, file.json, options, file.path);
  config->name_or_path = name_or_path;
  return config;
}

std::unique_ptr<BaseConfig> AutoConfig::for_model(const std::string& model_type, const ConfigOptions& options) {
  return from_dict(Json::object({{"model_type", model_type}}), options);
}

}  // namespace easydel
