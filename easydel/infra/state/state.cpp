#include "easydel/infra/state/state.h"

#include <torch/csrc/autograd/autograd.h>

#include "easydel/core/error.h"
#include "easydel/infra/state/state_layout.h"

namespace easydel {
namespace {

GraphState own_memory(const GraphState& tree) {
  GraphState copy;
  for (const auto& [path, tensor] : tree)
    copy.set(path, tensor.detach().clone().requires_grad_(tensor.requires_grad()));
  return copy;
}

void check_optimizer(const State& state) {
  require<ConfigError>(state.tx != nullptr, "[apply_gradients] the state has no tx: make it with init_tx(tx).");
  require<ConfigError>(state.opt_state.has_value(),
                       "[apply_gradients] opt_state is not initialized: make it with init_tx(tx) or load_optimizer.");
}

// The transformation, in the memory of the state and of the gradients.
void step_in_place(State& state, GraphState& grads, const optim::Placement& placement) {
  const at::NoGradGuard no_grad;
  for (const auto& [path, grad] : grads) {
    const at::Tensor* parameter = state.graphstate.find(path);
    require<ConfigError>(parameter != nullptr, "[apply_gradients] there is a gradient of \"", path,
                         "\", which is not a parameter of this state.");
    require<ShapeError>(parameter->sizes() == grad.sizes(), "[apply_gradients] \"", path, "\" is ", parameter->sizes(),
                        "; its gradient is ", grad.sizes(), ".");
  }
  optim::apply_in_own_layout(*state.tx, state.graphstate, grads, *state.opt_state, placement);
  ++state.step;
}

}  // namespace

State State::create(const CreateOptions& options) {
  const bool any = options.graphdef || options.graphstate || options.graphother;
  const bool all = options.graphdef && options.graphstate && options.graphother;
  require<ConfigError>(
      !(options.model && any),
      "[State::create] give a model or graph components (graphdef, graphstate, graphother), not both.");
  require<ConfigError>(options.model || all || !any,
                       "[State::create] graph components come together; missing:", options.graphdef ? "" : " graphdef",
                       options.graphstate ? "" : " graphstate", options.graphother ? "" : " graphother", ".");
  require<ConfigError>(options.model || all,
                       "[State::create] a model or graphdef, graphstate and graphother are needed.");
  require<ConfigError>(!(options.init_opt_state && options.opt_state),
                       "[State::create] init_opt_state makes an opt_state; one was given too.");
  require<ConfigError>(!options.init_opt_state || options.tx, "[State::create] init_opt_state needs a tx.");
  State state;
  state.step = options.step.value_or(0);
  if (options.model) {
    std::tie(state.graphdef, state.graphstate, state.graphother) = options.model->split_module_parts();
  } else {
    state.graphdef = *options.graphdef;
    state.graphstate = *options.graphstate;
    state.graphother = *options.graphother;
  }
  state.tx = options.tx;
  state.opt_state = options.opt_state;
  return options.init_opt_state ? state.init_tx(options.tx) : state;
}

optim::Placement State::placement() const {
  optim::Placement placement{.parallel = graphdef.parallel};
  for (const ParameterInfo& info : *graphdef.parameters) {
    if (info.sharding) placement.shardings.emplace(info.path, info.sharding);
  }
  return placement;
}

State State::init_tx(optim::GradientTransformation transformation,
                     const std::optional<PartitionRules>& partition_rules) const {
  require<ConfigError>(transformation != nullptr, "[init_tx] a transformation is needed; got none.");
  State next = *this;
  next.tx = std::move(transformation);
  next.opt_state = StateLayout(graphdef, partition_rules).init(*next.tx, graphstate);
  return next;
}

State State::apply_gradients(const GraphState& grads) const& {
  check_optimizer(*this);
  State next = *this;
  next.graphstate = own_memory(graphstate);
  next.opt_state = opt_state->clone();
  GraphState own = own_memory(grads);
  step_in_place(next, own, placement());
  return next;
}

State State::apply_gradients(GraphState&& grads) && {
  check_optimizer(*this);
  GraphState taken = std::move(grads);
  const optim::Placement where = placement();
  step_in_place(*this, taken, where);
  return std::move(*this);
}

std::shared_ptr<BaseModule> State::merge(const GraphState& tree) const {
  return merge_module(graphdef, tree, graphother);
}

State State::merge_to_state(const GraphState& tree) const {
  State next = *this;
  next.graphstate = tree;
  return next;
}

ModelOutput State::apply(const ModelInputs& inputs) const {
  return apply_fn ? apply_fn(graphstate, inputs) : (*model())(inputs);
}

State State::replace(const Updates& updates) const {
  State next = *this;
  if (updates.step) next.step = *updates.step;
  if (updates.graphdef) next.graphdef = *updates.graphdef;
  if (updates.graphstate) next.graphstate = *updates.graphstate;
  if (updates.graphother) next.graphother = *updates.graphother;
  if (updates.tx) next.tx = *updates.tx;
  if (updates.opt_state) next.opt_state = *updates.opt_state;
  if (updates.apply_fn) next.apply_fn = *updates.apply_fn;
  return next;
}

int64_t State::size() const { return graphstate.nbytes() + (opt_state ? opt_state->nbytes() : 0); }

std::pair<at::Tensor, GraphState> value_and_grad(const State& state,
                                                 const std::function<at::Tensor(const BaseModule& model)>& loss_fn) {
  const std::shared_ptr<BaseModule> model = state.model();
  // Leaves of its own, on the same memory: gradients are added up beside them, and other threads may use the state.
  GraphState leaves;
  for (const auto& [path, tensor] : model->params()) {
    if (tensor.requires_grad()) leaves.set(path, tensor.detach().requires_grad_());
  }
  model->merge_params(leaves);
  const at::Tensor loss = loss_fn(*model);
  require<ShapeError>(loss.defined() && loss.numel() == 1, "[value_and_grad] the loss must be one number; got ",
                      loss.defined() ? concat("a tensor of ", loss.sizes()) : "nothing", ".");
  // Backward and not autograd's grad, which does not see the parameters inside of layers that are computed again.
  torch::autograd::backward({loss}, {});
  GraphState tree;
  for (const auto& [path, leaf] : leaves) {
    if (leaf.grad().defined()) tree.set(path, leaf.grad());
  }
  return {loss.detach(), std::move(tree)};
}

}  // namespace easydel
