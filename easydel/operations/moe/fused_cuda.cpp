// Letters: T tokens, E experts, R rows sorted by expert, D hidden, I intermediate.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/moe/cuda_experts.h"
#include "easydel/operations/moe/grouped_product.h"
#include "easydel/operations/moe/row_work.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CudaArguments : torch::CustomClassHolder {
  const Activation* act = nullptr;
  WeightAccessPtr gate_up_access, down_access;
  int64_t top_k = 0;
};

bool is_gelu(const Activation& act) { return act.gated == GatedKernel::GeluTanh; }

cuda_experts::Gated gated_rows(const Tensor& x_rows, const Tensor& w1, const ExpertRows& rows, const Activation& act,
                               bool keep) {
  if (w1.size(1) % 16 == 0 && cuda_experts::can_multiply(x_rows, w1.size(1), rows.ends))
    return cuda_experts::gated_product(x_rows, w1, rows.ends, is_gelu(act), keep);
  const Tensor gate_up = grouped_product(x_rows, w1.transpose(1, 2), rows);
  return {keep ? gate_up : Tensor(), gated_activation(gate_up, act)};
}

struct Forward {
  Tensor x_rows, gate_up, y;  // gate_up where it is kept
};
Forward run(const Tensor& x, const Tensor& weights, const StackedExperts& experts, const Dispatch& dispatch,
            bool keep) {
  const ExpertRows rows{dispatch.ends, {}};
  const Tensor w1 = gather(experts.gate_up, x.scalar_type(), experts.gate_up_access);
  const Tensor w2 = gather(experts.down, x.scalar_type(), experts.down_access);
  const Tensor x_rows = spread_rows(x, dispatch);
  const cuda_experts::Gated hidden = gated_rows(x_rows, w1, rows, *experts.act, keep);
  return {x_rows, hidden.gate_up, sum_rows(grouped_product(hidden.gated, w2.transpose(1, 2), rows), weights, dispatch)};
}

// The routing weights are applied to the input of the last product, so that neither its result nor its gradient is read
// again for them.
struct FusedOnCuda : torch::autograd::Function<FusedOnCuda> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights, const Tensor& gate_up,
                        const Tensor& down, const StackedExperts& experts, const Dispatch& dispatch) {
    auto holder = c10::make_intrusive<CudaArguments>();
    holder->act = experts.act, holder->top_k = dispatch.top_k;
    holder->gate_up_access = experts.gate_up_access, holder->down_access = experts.down_access;
    const Forward done = run(x, weights, experts, dispatch, true);
    ctx->save_for_backward(
        {done.x_rows, weights, gate_up, down, done.gate_up, dispatch.order, dispatch.inverse, dispatch.ends});
    ctx->saved_data["holder"] = c10::IValue::make_capsule(holder);
    return done.y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("fused_experts");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x_rows = saved[0], &weights = saved[1], &gate_up = saved[2], &down = saved[3], &hidden = saved[4];
    const auto holder = c10::static_intrusive_pointer_cast<CudaArguments>(ctx->saved_data["holder"].toCapsule());
    Dispatch dispatch;
    dispatch.top_k = holder->top_k;
    dispatch.order = saved[5], dispatch.inverse = saved[6], dispatch.ends = saved[7];
    const ExpertRows rows{dispatch.ends, {}};
    const Tensor w2 = gather(down, x_rows.scalar_type(), holder->down_access);
    const Tensor d_rows = spread_rows(grads[0], dispatch);
    cuda_experts::WeightedGate gate = cuda_experts::weighted_gate_backward(
        hidden, grouped_product(d_rows, w2, rows), weights, dispatch.order, is_gelu(*holder->act));
    variable_list result(6);
    if (ctx->needs_input_grad(3))
      result[3] = reduce(grouped_outer(d_rows, gate.weighted, rows), holder->down_access).to(down.scalar_type());
    gate.weighted.reset();
    if (ctx->needs_input_grad(0)) {
      const Tensor w1 = gather(gate_up, x_rows.scalar_type(), holder->gate_up_access);
      result[0] = sum_rows(grouped_product(gate.d_gate_up, w1, rows), {}, dispatch);
    }
    if (ctx->needs_input_grad(2))
      result[2] = reduce(grouped_outer(gate.d_gate_up, x_rows, rows), holder->gate_up_access).to(gate_up.scalar_type());
    result[1] = gate.d_weights.view(weights.sizes()).to(weights.scalar_type());
    return result;
  }
};

}  // namespace

bool can_fuse_on_cuda(const Tensor& x, const StackedExperts& experts) {
  return cuda_experts::can_move(x) && experts.act->gated != GatedKernel::None &&
         experts.down.size(-1) * x.element_size() % 16 == 0;
}

Tensor fused_experts_on_cuda(const Tensor& x, const Tensor& weights, const StackedExperts& experts,
                             const Dispatch& dispatch) {
  const bool trains = at::GradMode::is_enabled() && (x.requires_grad() || weights.requires_grad() ||
                                                     experts.gate_up.requires_grad() || experts.down.requires_grad());
  if (!trains) return run(x, weights, experts, dispatch, false).y;
  return FusedOnCuda::apply(x, weights, experts.gate_up, experts.down, experts, dispatch);
}

std::optional<Tensor> experts_of_few_tokens(const Tensor& x, const Routing& routing, const StackedExperts& experts,
                                            const AroundProducts& around) {
  if (!x.is_cuda() || experts.gate_up_access || experts.down_access || experts.act->gated == GatedKernel::None)
    return std::nullopt;
  for (const Tensor& t : {x, routing.weights, experts.gate_up, experts.down, around.norm, around.residual}) {
    if (at::GradMode::is_enabled() && t.defined() && t.requires_grad()) return std::nullopt;
  }
  if (inside_checkpoint() || !cuda_experts::can_multiply_tokens(x, routing, experts.gate_up, experts.down, around))
    return std::nullopt;
  return cuda_experts::multiply_tokens(x, routing, experts.gate_up, experts.down, is_gelu(*experts.act), around);
}

}  // namespace easydel::operations
