// The config of any registered model, picked by the model_type in its config.json.
#pragma once

#include <memory>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_io.h"

namespace easydel {

struct AutoConfig {
  // A directory with a config.json, that file itself, or the name of a repository on the hub.
  static std::unique_ptr<BaseConfig> from_pretrained(const std::string& name_or_path,
                                                     const ConfigOptions& options = {});
  // `where` is named in errors: the file, where there is one.
  static std::unique_ptr<BaseConfig> from_dict(const Json& json, const ConfigOptions& options = {},
                                               const std::string& where = "");
  // The defaults of a model type, with some fields set.
  static std::unique_ptr<BaseConfig> for_model(const std::string& model_type, const ConfigOptions& options = {});
};

}  // namespace easydel
