// Which adapters a model has, where, and which of them count: what a rebuilt model needs to have them too.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/infra/state/state_model_writer.h"
#include "easydel/lora/lora_config.h"
#include "easydel/lora/lora_layer.h"

namespace easydel {

struct LoraTarget {
  std::string path;  // of the Linear, or of a table
  int64_t rank = 0;
  double scaling = 1;
  bool is_table = false;
};

struct LoraAdapter {
  std::string name;
  LoraConfig config;
  std::vector<LoraTarget> targets;
  DType dtype = float32;  // of its weights: float32 where the model's are narrower

  const LoraTarget* find(const std::string& path) const;  // null: not there
};

// Immutable once it is in a model; a change makes another one.
struct LoraSetup {
  std::vector<LoraAdapter> adapters;
  std::vector<std::pair<std::string, double>> active;  // names and weights
  bool enabled = true;
  bool merged = false;
  bool saves_merged = false;  // checkpoints of a training have the merged model too
  // The weights before they were merged, as they were stored, by path.
  struct Original {
    at::Tensor value;
    std::shared_ptr<const WeightSharding> sharding;
  };
  std::map<std::string, Original> originals;
  std::set<std::string> frozen_before;  // parameters that did not train before there were adapters

  const LoraAdapter* find(const std::string& name) const;                   // null: none
  const LoraAdapter& at(const std::string& name, const char* where) const;  // ConfigError: none
};

class LoraTransform final : public ModuleTransform, public StateModelWriter {
 public:
  explicit LoraTransform(LoraSetup setup) : setup_(std::move(setup)) {}
  void apply(BaseModule& module) const override;
  // peft's files where adapter_directory says, and in the directory itself the merged model, where the setup wants it.
  void write_model(const BaseModule& model, const std::filesystem::path& directory, const SaveOptions& options,
                   const std::function<at::Tensor(const std::string& path)>& whole) const override;
  const LoraSetup& setup() const { return setup_; }

 private:
  LoraSetup setup_;
};

const LoraSetup* find_setup(const BaseModule& module);                    // null: no adapters
const LoraSetup& get_setup(const BaseModule& module, const char* where);  // ConfigError: no adapters
// Makes the model's tree what the setup says, and remembers it; a setup without adapters is forgotten. Weights that
// were not there are drawn from (rngs, path) where rngs are given and the model has memory.
void change_setup(BaseModule& module, LoraSetup setup, const std::optional<RandomKey>& rngs = {});

std::set<std::string> adapter_paths(const LoraSetup& setup);  // of all their parameters

// Whether the parameter stays as it is in the base but trains and is saved with the adapter.
bool is_saved_module(const LoraConfig& config, const std::string& parameter_path);

}  // namespace easydel
