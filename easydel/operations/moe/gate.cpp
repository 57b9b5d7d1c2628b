#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/moe/moe.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Parts {
  Tensor gate, up;        // as they are
  Tensor clamped, shift;  // gate from above; up on both sides, plus one
  Tensor sigmoid;

  Parts(const Tensor& gate_up, const ClampedGate& g) {
    const Tensor pairs = gate_up.unflatten(-1, {gate_up.size(-1) / 2, 2});
    gate = pairs.select(-1, 0);
    up = pairs.select(-1, 1);
    clamped = gate.clamp_max(g.limit);
    shift = up.clamp(-g.limit, g.limit).add_(1);
    sigmoid = at::sigmoid(clamped * g.alpha);
  }
};

struct Clamped : torch::autograd::Function<Clamped> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up, double alpha, double limit) {
    ctx->save_for_backward({gate_up});
    ctx->saved_data["alpha"] = alpha;
    ctx->saved_data["limit"] = limit;
    const Parts p(gate_up, {alpha, limit});
    return (p.clamped * p.sigmoid).mul_(p.shift);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("clamped_gate");
    const Tensor gate_up = ctx->get_saved_variables()[0];
    const double alpha = ctx->saved_data["alpha"].toDouble(), limit = ctx->saved_data["limit"].toDouble();
    const Parts p(gate_up, {alpha, limit});
    const Tensor slope = p.sigmoid * (1 + alpha * p.clamped * (1 - p.sigmoid));  // of gate * sigmoid(alpha * gate)
    const Tensor d = at::empty_like(gate_up);
    const Tensor pairs = d.unflatten(-1, {d.size(-1) / 2, 2});
    pairs.select(-1, 0).copy_((grads[0] * p.shift * slope).masked_fill_(p.gate > limit, 0));
    pairs.select(-1, 1).copy_((grads[0] * p.clamped * p.sigmoid).masked_fill_(p.up.abs() > limit, 0));
    return {d, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor clamped_gate(const Tensor& gate_up, const ClampedGate& gate) {
  require<ShapeError>(gate_up.dim() >= 1 && gate_up.size(-1) % 2 == 0,
                      "[clamped_gate] the last dimension must contain gate and up interleaved; got ", gate_up.sizes(),
                      ".");
  return Clamped::apply(gate_up.contiguous(), gate.alpha, gate.limit);
}

}  // namespace easydel::operations
