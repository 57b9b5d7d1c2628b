#include "easydel/operations/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

#include "easydel/core/runtime.h"
#include "easydel/operations/checkpoint_dots.h"
#include "easydel/operations/kernels/cpu/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One checkpointed call: what is needed to recompute it.
struct Block : torch::CustomClassHolder {
  std::function<TensorList(const TensorList&)> fn;
  CheckpointPolicy policy;
  RankContext rank;                         // backward may run on another thread
  std::vector<TensorList> kept;             // the dots that the policy keeps, in the order of the first run
  std::vector<bool> has_input, has_output;  // which of them are defined: autograd accepts only those

  TensorList run(const TensorList& defined_inputs) const;
};

TensorList defined_of(const TensorList& list, std::vector<bool>& is_defined) {
  TensorList out;
  is_defined.clear();
  for (const Tensor& t : list) {
    is_defined.push_back(t.defined());
    if (t.defined()) out.push_back(t);
  }
  return out;
}

TensorList with_gaps(TensorList list, const std::vector<bool>& is_defined) {
  TensorList out;
  auto next = list.begin();
  for (const bool defined : is_defined) out.push_back(defined ? std::move(*next++) : Tensor());
  return out;
}

TensorList Block::run(const TensorList& defined_inputs) const { return fn(with_gaps(defined_inputs, has_input)); }

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
    out.push_back(input.detach());
    if (keep_requires_grad) out.back().set_requires_grad(input.requires_grad());
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
    variable_list outputs = defined_of(block->run(detached(inputs, false)), block->has_output), fixed;
    for (const Tensor& output : outputs) {
      if (!at::isFloatingType(output.scalar_type())) fixed.push_back(output);
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
      for (const Tensor& output : block->run(inputs)) {
        if (!output.defined()) continue;
        const Tensor& grad = grads.at(at++);
        if (!grad.defined() || !output.requires_grad()) continue;
        outputs.push_back(output);
        output_grads.push_back(grad);
      }
      require<Error>(
          run.next == block->kept.size(),
          "[checkpoint] the recomputation had fewer dots than the first run. The function must be deterministic.");
    }
    if (!outputs.empty()) torch::autograd::backward(outputs, output_grads);
    variable_list result;
    for (const Tensor& input : inputs) result.push_back(input.grad());
    result.resize(inputs.size() + 2);  // nothing for the anchor and the block
    return result;
  }
};

}  // namespace

TensorList checkpoint(const std::function<TensorList(const TensorList&)>& fn, const TensorList& inputs,
                      const CheckpointPolicy& policy) {
  if (!policy.recomputes()) return fn(inputs);
  if (!at::GradMode::is_enabled()) {  // nothing to save; and an enclosing checkpoint must not
                                      // keep what fn computes
    const RunScope scope(nullptr);
    return fn(inputs);
  }
  auto block = c10::make_intrusive<Block>();
  block->fn = fn;
  block->policy = policy;
  block->rank = current_rank();
  const Tensor anchor = at::empty({0}).requires_grad_();
  const TensorList defined = defined_of(inputs, block->has_input);
  return with_gaps(Checkpoint::apply(at::TensorList(defined), anchor, block), block->has_output);
}

bool inside_checkpoint() { return current_run != nullptr; }
bool keeps_dot(std::string_view name) { return current_run && current_run->block->policy.keeps(name); }

TensorList keep_dots(std::string_view name, const std::function<TensorList()>& compute) {
  Run* const run = current_run;
  if (!run || !run->block->policy.keeps(name)) return compute();
  std::vector<TensorList>& kept = run->block->kept;
  if (!run->replays) kept.push_back(compute());
  require<Error>(
      run->next < kept.size(),
      "[checkpoint] the recomputation had more dots than the first run. The function must be deterministic.");
  return detached(kept[run->next++], false);
}

Tensor keep_dot(std::string_view name, const std::function<Tensor()>& compute) {
  return keep_dots(name, [&] { return TensorList{compute()}; }).front();
}

}  // namespace easydel::operations
