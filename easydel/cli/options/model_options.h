// The options of every command that loads a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "easydel/cli/options/device_options.h"
#include "easydel/infra/auto_model.h"
#include "easydel/sharding/world/world.h"

namespace CLI {
class App;
}

namespace easydel::cli {

// Empty device, dtype and param_dtype mean the defaults of compute_settings().
struct ModelOptions : DeviceOptions {
  std::string model;
  std::string task = "auto-bind";
  std::string dtype, param_dtype;
  std::string revision = "main";
  std::vector<std::string> overrides;      // key=value
  QuantizeOptions quantize{.method = {}};  // without a method: as the files are
  std::vector<std::string> adapters;       // DIR or DIR=WEIGHT
};

void add_model_options(CLI::App& command, ModelOptions& options);
void add_adapter_option(CLI::App& command, ModelOptions& options);  // for commands that call load()
ComputeSettings to_compute_settings(const ModelOptions& options);
LoadOptions to_load_options(const ModelOptions& options);
std::shared_ptr<BaseModule> load(const ModelOptions& options);  // with its adapters

// Puts --mesh into the config and returns the mesh over that many devices. UsageError quotes the options.
Mesh set_mesh(BaseConfig& config, const ModelOptions& options, int64_t devices);

// Runs it once per rank: on rank_count() threads, or as this process's rank under a launcher.
void on_ranks(const ModelOptions& options, const std::function<void(World&)>& body);

}  // namespace easydel::cli
