// The options with which every command that runs a model loads it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/infra/auto_model.h"

namespace CLI {
class App;
}

namespace easydel::cli {

struct ModelOptions {
  std::string model;
  std::string task = "auto-bind";
  std::string dtype = "fp32";
  std::string param_dtype;  // what dtype is
  std::string device = "cpu";
  std::string revision = "main";
  std::vector<std::string> overrides;  // key=value
};

void add_model_options(CLI::App& command, ModelOptions& options);
LoadOptions to_load_options(const ModelOptions& options);
std::shared_ptr<BaseModule> load(const ModelOptions& options);

}  // namespace easydel::cli
