// The config of any registered model, picked by the model_type in its config.json.
#pragma once

#include <memory>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_io.h"
#include "easydel/infra/task_type.h"

namespace easydel {

struct AutoConfig {
  // A directory with a config.json, that file itself, or the name of a repository on the hub. A multimodal model that
  // is only known by its text (infra/files/text_part.h) gives the config of that.
  static std::unique_ptr<BaseConfig> from_pretrained(const std::string& name_or_path,
                                                     const ConfigOptions& options = {});
  // The config of what loads for a task: for a causal LM that of the text, of a multimodal model without such a class.
  static std::unique_ptr<BaseConfig> for_task(TaskType task, const std::string& name_or_path,
                                              const ConfigOptions& options = {});
  // `where` is named in errors: the file, where there is one.
  static std::unique_ptr<BaseConfig> from_dict(const Json& json, const ConfigOptions& options = {},
                                               const std::string& where = "");
  // The defaults of a model type, with some fields set.
  static std::unique_ptr<BaseConfig> for_model(const std::string& model_type, const ConfigOptions& options = {});

 private:
  static std::unique_ptr<BaseConfig> from_dict(TaskType task, const Json& json, const ConfigOptions& options,
                                               const std::string& where);
};

}  // namespace easydel
