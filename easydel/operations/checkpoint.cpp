#include "easydel/operations/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

#include "easydel/core/runtime.h"
#include "easydel/operations/kernels/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One checkpointed call: what is needed to run it again.
struct Block : torch::CustomClassHolder {
  std::function<TensorList(const TensorList&)> fn;
  CheckpointPolicy policy;
  RankContext rank;  // backward may run on another thread
  std::vector<TensorList> kept;  // the dots that the policy keeps, in the order of the first run
  std::vector<bool> is_defined;  // of the outputs
};

// The run that the calling thread is in, if any.
struct Run {
  Block* block = nullptr;
  bool replays = false;
  std::size_t next = 0;
};
thread_local Run* current_run = nullptr;

class RunScope {
 public:
  explicit RunScope(Run* run) : previous_(std::exchange(current_run, run)) {}
  ~RunScope() { current_run = previous_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  Run* previous_;
};

TensorList detached(at::TensorList inputs, bool keep_requires_grad) {
  TensorList out;
  for (const Tensor& input : inputs) {
    out.push_back(input.defined() ? input.detach() : input);
    if (keep_requires_grad && input.defined()) out.back().set_requires_grad(input.requires_grad());
  }
  return out;
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  // `anchor` needs a gradient, so that the outputs do even when only parameters inside fn do.
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const Tensor& anchor,
                               const c10::intrusive_ptr<Block>& block) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({inputs.begin(), inputs.end()});
    ctx->saved_data["block"] = c10::IValue::make_capsule(block);
    Run run{block.get()};
    const RunScope scope(&run);
    variable_list outputs, fixed;
    for (Tensor& output : block->fn(detached(inputs, false))) {
      block->is_defined.push_back(output.defined());
      if (!output.defined()) continue;
      if (!at::isFloatingType(output.scalar_type())) fixed.push_back(output);
      outputs.push_back(std::move(output));
    }
    ctx->mark_non_differentiable(fixed);
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("checkpoint");
    const auto block = c10::static_intrusive_pointer_cast<Block>(ctx->saved_data["block"].toCapsule());
    const RankScope rank(block->rank);
    const TensorList inputs = detached(ctx->get_saved_variables(), true);
    variable_list outputs, output_grads;
    {
      const at::AutoGradMode with_graph(true);
      Run run{block.get(), /*replays=*/true};
      const RunScope scope(&run);
      std::size_t at = 0;
      for (const Tensor& output : block->fn(inputs)) {
        if (!output.defined()) continue;
        const Tensor& grad = grads.at(at++);
        if (!grad.defined() || !output.requires_grad()) continue;
        outputs.push_back(output);
        output_grads.push_back(grad);
      }
    }
    if (!outputs.empty()) torch::autograd::backward(outputs, output_grads);
    variable_list result;
    for (const Tensor& input : inputs) result.push_back(input.defined() ? input.grad() : Tensor());
    result.resize(inputs.size() + 2);  // nothing for the anchor and the block
    return result;
  }
};

}  // namespace

TensorList checkpoint(const std::function<TensorList(const TensorList&)>& fn, const TensorList& inputs,
                      const CheckpointPolicy& policy) {
  if (!policy.recomputes()) return fn(inputs);
  if (!at::GradMode::is_enabled()) {  // nothing to save; and what fn does is not for a checkpoint around this one to keep
    const RunScope scope(nullptr);
    return fn(inputs);
  }
  auto block = c10::make_intrusive<Block>();
  block->fn = fn;
  block->policy = policy;
  block->rank = current_rank();
  const Tensor anchor = at::empty({0}).requires_grad_(true);
  variable_list defined = Checkpoint::apply(at::TensorList(inputs), anchor, block);
  TensorList outputs;
  auto next = defined.begin();
  for (const bool is_defined : block->is_defined) outputs.push_back(is_defined ? std::move(*next++) : Tensor());
  return outputs;
}

bool inside_checkpoint() { return current_run != nullptr; }

TensorList keep_dots(std::string_view name, const std::function<TensorList()>& compute) {
  Run* const run = current_run;
  if (!run || !run->block->policy.keeps(name)) return compute();
  std::vector<TensorList>& kept = run->block->kept;
  if (!run->replays) kept.push_back(compute());
  require<Error>(run->next < kept.size(),
                 "[checkpoint] the second run computed more dots than the first. The function must do the same each time.");
  return detached(kept[run->next++], false);
}

Tensor keep_dot(std::string_view name, const std::function<Tensor()>& compute) {
  return keep_dots(name, [&] { return TensorList{compute()}; }).front();
}

}  // namespace easydel::operations
