// A training run at one moment: the parameters of a model, the optimizer and what it remembers, the step.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "easydel/infra/auto_model.h"
#include "easydel/infra/base_module.h"
#include "easydel/optim/state.h"
#include "easydel/optim/transformation.h"

namespace easydel {

using ApplyFn = std::function<ModelOutput(const GraphState& params, const ModelInputs& inputs)>;

// Where the tensors of a state lie, by the parameter's path and by the name of the optimizer's leaf.
struct StateShardings {
  NamedShardings graphstate, graphother, opt_state;
};

struct SaveStateOptions {
  std::optional<DType> float_dtype = {};  // of the parameters in the files
  bool verbose = true;                    // a progress bar
  bool mismatch_allowed = true;
  bool save_optimizer = true;
  std::optional<bool> enable = {};  // false: nothing is written; on a mesh rank 0 writes, and all ranks call it
  std::string max_shard_size = "5GB";
  // Writes more into the directory, before it takes its place; on rank 0.
  std::function<void(const std::filesystem::path& directory)> also = {};
};

// A value: copies share tensors and are independent otherwise.
class State {
 public:
  int64_t step = 0;
  GraphDef graphdef = {};
  GraphState graphstate = {};
  GraphOther graphother = {};
  optim::GradientTransformation tx = {};
  std::optional<optim::OptState> opt_state = {};
  ApplyFn apply_fn = {};  // absent: the model's forward

  struct CreateOptions {
    std::optional<int64_t> step = {};
    std::optional<GraphDef> graphdef = {};
    std::optional<GraphState> graphstate = {};
    std::optional<GraphOther> graphother = {};
    const BaseModule* model = nullptr;
    optim::GradientTransformation tx = {};
    std::optional<optim::OptState> opt_state = {};
    bool init_opt_state = false;
  };
  // ConfigError when a model and graph components come together, when components are given in part, and when
  // init_opt_state comes with an opt_state or without a tx.
  static State create(const CreateOptions& options);

  // The state after one step with these gradients, by path. This one stays as it is.
  State apply_gradients(const GraphState& grads) const&;
  // The same in the memory of both: a model that was taken from this state sees the new parameters. Nothing that grows
  // with the model is allocated where the transformation has a kernel for it (adamw has).
  // Both: ConfigError without tx or opt_state.
  State apply_gradients(GraphState&& grads) &&;

  // With this transformation and a fresh optimizer state, which lies as the parameters do (with zero_stage 1 and 2
  // split over the data axes as well), or as these rules say: a leaf by the first that is found in its name or in its
  // parameter's path. Steps are the same wherever it lies.
  State init_tx(optim::GradientTransformation tx, const std::optional<PartitionRules>& partition_rules = {}) const;

  std::shared_ptr<BaseModule> model() const { return merge(graphstate); }
  std::shared_ptr<BaseModule> merge(const GraphState& tree) const;
  State merge_to_state(const GraphState& tree) const;
  ModelOutput apply(const ModelInputs& inputs) const;  // apply_fn on these parameters

  struct Updates {
    std::optional<int64_t> step = {};
    std::optional<GraphDef> graphdef = {};
    std::optional<GraphState> graphstate = {};
    std::optional<GraphOther> graphother = {};
    std::optional<optim::GradientTransformation> tx = {};
    std::optional<std::optional<optim::OptState>> opt_state = {};
    std::optional<ApplyFn> apply_fn = {};
  };
  State replace(const Updates& updates) const;

  // On a mesh; all ranks call these together. Gathered: every rank has all of it.
  State gather_model() const;
  State gather_optimizer_state() const;  // ConfigError without one
  State gather_state() const;
  State shard_model(const std::optional<PartitionRules>& partition_rules = {},
                    const std::optional<Mesh>& mesh = {}) const;
  // Lays an optimizer state, whole or split otherwise, out as init_tx does. ConfigError without one.
  State shard_optimizer_state(const std::optional<optim::OptState>& opt_state = {},
                              const std::optional<PartitionRules>& partition_rules = {}) const;
  State shard_state(const std::optional<PartitionRules>& partition_rules = {},
                    const std::optional<Mesh>& mesh = {}) const;
  // As shardings() of another state says. Leaves of the optimizer that it does not name lie as init_tx lays them out.
  // ConfigError when it names none of the parameters, splits a buffer, or names a leaf that there is not.
  State shard_with_shape(const StateShardings& shape) const;
  StateShardings shardings() const;
  // Whole and in the memory of the host, on rank 0; the others get nothing. What a background save writes.
  std::optional<State> snapshot(bool with_optimizer = true) const;

  optim::Placement placement() const;  // of the parameters, for who transforms gradients
  int64_t size() const;                // bytes of parameters and optimizer state, of this rank

  // config.json and the weights as save_pretrained writes them, optimizer.safetensors, state.json. One rename puts all
  // of it in place. IoError leaves what was there.
  void save_state(const std::filesystem::path& save_directory, const SaveStateOptions& options = {}) const;
  // With `tx` the optimizer state has its form, and files of another optimizer are a ConfigError; without, that of the
  // files. Another mesh, or zero_stage, than that of the files reads its own parts. IoError when files are missing.
  static State load_state(const std::filesystem::path& load_directory, const LoadOptions& options = {},
                          optim::GradientTransformation tx = {}, TaskType model_task = TaskType::AutoBind);
  State load_optimizer(const std::filesystem::path& load_directory,
                       const std::optional<PartitionRules>& partition_rules = {}) const;

 private:
  State with_model(const BaseModule& model) const;
};

// The loss of a state's model and its gradient, by path: what no gradient reaches is left out. On a mesh all ranks call
// it together, and each gets the gradients of what it stores.
std::pair<at::Tensor, GraphState> value_and_grad(const State& state,
                                                 const std::function<at::Tensor(const BaseModule& model)>& loss_fn);

}  // namespace easydel
