#include "easydel/infra/config/auto_config.h"

#include "easydel/core/error.h"
#include "easydel/infra/registry.h"

namespace easydel {

std::unique_ptr<BaseConfig> AutoConfig::from_dict(const Json& json, const ConfigOptions& options,
                                                  const std::string& where) {
  const std::string prefix = "[AutoConfig] " + (where.empty() ? "" : where + ": ");
  const Json* overridden = options.overrides.find("model_type");
  const Json* model_type = overridden ? overridden : json.find("model_type");
  require<ConfigError>(model_type && model_type->is_string(), prefix, "model_type must be a string; got ",
                       model_type ? model_type->dump() : "none", ". An override can set it.");
  auto config = Registry::instance().make_config(model_type->as_string(), prefix);
  read_config(*config, json, where, options);
  return config;
}

std::unique_ptr<BaseConfig> AutoConfig::from_pretrained(const std::string& name_or_path, const ConfigOptions& options) {
  const ConfigFile file = load_config_file(name_or_path, options);
  auto config = from_dict(file.json, options, file.path);
  config->name_or_path = name_or_path;
  return config;
}

std::unique_ptr<BaseConfig> AutoConfig::for_model(const std::string& model_type, const ConfigOptions& options) {
  return from_dict(Json::object({{"model_type", model_type}}), options);
}

}  // namespace easydel
