// The options with which every command that runs a model loads it.
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

// What is empty of device, dtype and param_dtype is compute_settings()'s.
struct ModelOptions : DeviceOptions {
  std::string model;
  std::string task = "auto-bind";
  std::string dtype, param_dtype;
  std::string revision = "main";
  std::vector<std::string> overrides;  // key=value
  std::string quantize;                // a method; empty: as the files are
  std::string quantize_pattern;
  int64_t quantize_group_size = 0;
  std::vector<std::string> adapters;  // DIR or DIR=WEIGHT
};

void add_model_options(CLI::App& command, ModelOptions& options);
void add_adapter_option(CLI::App& command, ModelOptions& options);  // of commands that call load()
ComputeSettings to_compute_settings(const ModelOptions& options);
LoadOptions to_load_options(const ModelOptions& options);
std::shared_ptr<BaseModule> load(const ModelOptions& options);  // with its adapters

// Puts --mesh into the config and gives the mesh of so many devices. UsageError repeats what was typed.
Mesh set_mesh(BaseConfig& config, const ModelOptions& options, int64_t devices);

// Runs it once for each rank: on rank_count() threads, or as the rank that a launcher has made this process.
void on_ranks(const ModelOptions& options, const std::function<void(World&)>& body);

}  // namespace easydel::cli
