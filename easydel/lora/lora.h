// Low-rank adapters on the linear maps of a model, and on its tables: several, by name, of which some are active.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/lora/lora_config.h"

namespace easydel {

// Options of apply_lora other than rank, alpha and pattern.
struct LoraOptions {
  std::string adapter_name = "default";
  double dropout = 0;
  bool rslora = false;
  bool dora = false;
  LoraInit init = LoraInit::Default;
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};  // layers of another rank; see LoraConfig
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  std::vector<std::string> modules_to_save = {};  // ends of paths of modules that go on training: "score"
  bool embeddings = false;                        // tables that the pattern finds have an adapter too
  std::optional<RandomKey> rngs = {};             // what A is drawn from; absent: the model's
  bool verbose = false;                           // says how many layers there are
};

// On a mesh all ranks call the same functions together. Where an adapter's name is needed and none of that name is
// there: ConfigError, with those that are.

// Adapters on the layers whose path the pattern finds. From then on they alone train.
void apply_lora(BaseModule& model, int64_t lora_rank, double lora_alpha, const std::string& lora_pattern,
                const LoraOptions& options = {});
bool lora_is_enabled(const BaseModule& model);
std::pair<GraphState, GraphState> split_lora_params(const BaseModule& model);  // the base's, the adapters'
void merge_lora_params(BaseModule& model,
                       const GraphState& lora_params);  // puts these back, which split_lora_params gave
void merge_lora_params(BaseModule& model);              // adds the active adapters to the weights
// Merges what is not merged, and takes the adapters off for good; verbose says how many layers there were.
void unwrap_lora(BaseModule& model, bool verbose = false);

std::vector<std::string> adapter_names(const BaseModule& model);  // in the order in which they came
std::vector<std::pair<std::string, double>> active_adapters(const BaseModule& model);  // with their weights
LoraConfig adapter_config(const BaseModule& model, const std::string& name = "default");

// Those that count from now on, and train; the others keep their weights. A weight multiplies the adapter's scaling.
void set_adapter(BaseModule& model, const std::string& name);
void set_adapters(BaseModule& model, const std::vector<std::pair<std::string, double>>& weights);
void disable_adapters(BaseModule& model);  // the model computes like its base
void enable_adapters(BaseModule& model);
void delete_adapter(BaseModule& model, const std::string& name);  // with the last one the model is plain again

// A new adapter made of others, which need not be active. As peft has it: "cat" is exact and has the sum of the ranks;
// "linear" wants equal ranks and is another thing: it multiplies the sums of A and of B.
void add_weighted_adapter(BaseModule& model, const std::vector<std::pair<std::string, double>>& weights,
                          const std::string& name, const std::string& combination_type = "cat");

bool lora_is_merged(const BaseModule& model);
// Puts the weights back that were there before merge_lora_params. ConfigError when nothing is merged.
void unmerge_lora_params(BaseModule& model);

// peft's files: adapter_config.json and adapter_model.safetensors, without the adapter's name. On a mesh rank 0 writes.
// base_model becomes base_model_name_or_path; empty: the name that the model was loaded by.
void save_adapter(const BaseModule& model, const std::filesystem::path& directory, const std::string& name = "default",
                  const std::string& base_model = "");
// The same, or with adapter_model.bin. The first adapter of a model becomes active. FormatError lists modules that the
// model lacks; ShapeError names a tensor that does not fit.
void load_adapter(BaseModule& model, const std::filesystem::path& directory, const std::string& name = "default");
// Loads weights into an existing adapter, to resume a run.
void reload_adapter(BaseModule& model, const std::filesystem::path& directory, const std::string& name = "default");

// Where save_state puts an adapter: "adapter" in the checkpoint, and its name in there where there are several and it
// is not called "default". With `merged` the checkpoint is a model that runs without adapters, too.
std::filesystem::path adapter_directory(const BaseModule& model, const std::filesystem::path& checkpoint,
                                        const std::string& name);
void set_saves_merged(BaseModule& model, bool merged);

}  // namespace easydel
