#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/activation.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/moe/row_work.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_fused(const Tensor& x, GatedKernel kernel) { return kernel != GatedKernel::None && kernels::applies(x); }

// Evenly strided rows with dense elements: the output of a projection, or half of one.
bool has_plain_rows(const Tensor& x) {
  if (x.stride(-1) != 1) return false;
  for (int64_t d = 0; d + 2 < x.dim(); ++d) {
    if (x.size(d) != 1 && x.stride(d) != x.stride(d + 1) * x.size(d + 1)) return false;
  }
  return true;
}
int64_t row_stride(const Tensor& x) { return x.dim() < 2 ? x.numel() : x.stride(-2); }

kernels::GatedArgs kernel_args(const Tensor& gate, const Tensor& up) {
  return {gate.const_data_ptr(), up.const_data_ptr(), row_stride(gate), row_stride(up), gate.size(-1)};
}

auto forward_kernel(const Tensor& gate, const Activation& act) {
  const auto& table = kernels::for_elements(gate.scalar_type());
  return act.gated == GatedKernel::Silu ? table.silu_gate_forward : table.gelu_tanh_gate_forward;
}

// y is allocated if undefined.
Tensor forward_rows(const Tensor& gate, const Tensor& up, const Activation& act, Tensor y = {}) {
  if (act.gated != GatedKernel::None && cuda_fused::applies(gate))
    return cuda_fused::gate(gate, up, row_stride(gate), row_stride(up), act.gated == GatedKernel::GeluTanh);
  if (!is_fused(gate, act.gated)) return y.defined() ? at::mul_out(y, act(gate), up) : act(gate) * up;
  if (!y.defined()) y = at::empty(gate.sizes(), gate.options());
  const auto args = kernel_args(gate, up);
  const auto kernel = forward_kernel(gate, act);
  for_rows(kernels::row_count(gate), args.width,
           [&, out = y.mutable_data_ptr()](int64_t begin, int64_t end) { kernel(args, out, begin, end); });
  return y;
}

// d_gate and d_up are written; both have dense rows, `d_up` may be the second half of `d_gate`'s rows.
void backward_rows(const Tensor& gate, const Tensor& up, const Activation& act, const Tensor& d_y, const Tensor& d_gate,
                   const Tensor& d_up) {
  if (is_fused(gate, act.gated)) {
    const Tensor dense = d_y.contiguous();
    const auto args = kernel_args(gate, up);
    const auto& table = kernels::for_elements(gate.scalar_type());
    const auto kernel = act.gated == GatedKernel::Silu ? table.silu_gate_backward : table.gelu_tanh_gate_backward;
    for_rows(kernels::row_count(gate), args.width, [&](int64_t begin, int64_t end) {
      kernel(args, dense.const_data_ptr(), d_gate.mutable_data_ptr(), d_up.mutable_data_ptr(), row_stride(d_gate),
             begin, end);
    });
    return;
  }
  if (act.gated != GatedKernel::None && cuda_fused::applies(gate)) {
    return cuda_fused::gate_backward(gate, up, row_stride(gate), row_stride(up), d_y.contiguous(), d_gate, d_up,
                                     row_stride(d_gate), act.gated == GatedKernel::GeluTanh);
  }
  // Recomputes the activation, with its own graph.
  at::AutoGradMode with_graph(true);
  const Tensor leaf = gate.detach().requires_grad_();
  const Tensor activated = act(leaf);
  const Tensor upstream = (d_y * up).detach();
  d_gate.copy_(torch::autograd::grad({activated}, {leaf}, {upstream})[0]);
  d_up.copy_((d_y * activated).detach());
}

bool needs_graph(const Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); }

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in, const Activation* act) {
    const Tensor gate = has_plain_rows(gate_in) ? gate_in : gate_in.contiguous();
    const Tensor up = has_plain_rows(up_in) ? up_in : up_in.contiguous();
    ctx->save_for_backward({gate, up});
    ctx->saved_data["act"] = reinterpret_cast<int64_t>(act);
    return forward_rows(gate, up, *act);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("gated_activation");
    const auto saved = ctx->get_saved_variables();
    const auto& act = *reinterpret_cast<const Activation*>(ctx->saved_data["act"].toInt());
    const Tensor d_gate = at::empty(saved[0].sizes(), saved[0].options());
    const Tensor d_up = at::empty_like(d_gate);
    backward_rows(saved[0], saved[1], act, grads[0], d_gate, d_up);
    return {d_gate, d_up, Tensor()};
  }
};

struct GatedHalves : torch::autograd::Function<GatedHalves> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up_in, const Activation* act) {
    const Tensor gate_up = gate_up_in.contiguous();
    ctx->save_for_backward({gate_up});
    ctx->saved_data["act"] = reinterpret_cast<int64_t>(act);
    const int64_t width = gate_up.size(-1) / 2;
    return forward_rows(gate_up.narrow(-1, 0, width), gate_up.narrow(-1, width, width), *act);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("gated_activation");
    const Tensor gate_up = ctx->get_saved_variables()[0];
    const auto& act = *reinterpret_cast<const Activation*>(ctx->saved_data["act"].toInt());
    const int64_t width = gate_up.size(-1) / 2;
    const Tensor d = at::empty_like(gate_up);
    backward_rows(gate_up.narrow(-1, 0, width), gate_up.narrow(-1, width, width), act, grads[0], d.narrow(-1, 0, width),
                  d.narrow(-1, width, width));
    return {d, Tensor()};
  }
};

}  // namespace

RowWork gated_activation_rows(const Tensor& gate_up, const Activation& act, const Tensor& y) {
  const int64_t width = gate_up.size(-1) / 2;
  const Tensor gate = gate_up.narrow(-1, 0, width), up = gate_up.narrow(-1, width, width);
  if (!is_fused(gate, act.gated)) {
    return [=, &act](int64_t first, int64_t count) {
      const auto own = [&](const Tensor& x) { return x.narrow(0, first, count); };
      forward_rows(own(gate), own(up), act, own(y));
    };
  }
  const auto kernel = forward_kernel(gate, act);
  return [kernel, args = kernel_args(gate, up), out = y.mutable_data_ptr()](int64_t first, int64_t count) {
    kernel(args, out, first, first + count);
  };
}

RowWork weighted_activation_backward(const Tensor& gate_up, const Activation& act, const Weighted& weighted,
                                     const Tensor& d_y, const Tensor& y, const Tensor& d_gate_up) {
  const int64_t width = gate_up.size(-1) / 2;
  const Tensor gate = gate_up.narrow(-1, 0, width), up = gate_up.narrow(-1, width, width);
  const Tensor d_gate = d_gate_up.narrow(-1, 0, width), d_up = d_gate_up.narrow(-1, width, width);
  if (!is_fused(gate, act.gated)) {
    return [=, &act](int64_t first, int64_t count) {
      const auto own = [&](const Tensor& x) { return x.narrow(0, first, count); };
      const Tensor value = own(y), d = own(d_y), weights = own(weighted.weights).unsqueeze(1);
      forward_rows(own(gate), own(up), act, value);
      own(weighted.d_weights).copy_(at::bmm(value.unsqueeze(1), d.unsqueeze(2)).view(-1));
      value.mul_(weights);
      d.mul_(weights);
      backward_rows(own(gate), own(up), act, d, own(d_gate), own(d_up));
    };
  }
  const kernels::WeightedArgs weighted_args{weighted.weights.const_data_ptr(),
                                            d_y.const_data_ptr(),
                                            weighted.d_weights.mutable_data_ptr(),
                                            y.mutable_data_ptr(),
                                            d_gate.mutable_data_ptr(),
                                            d_up.mutable_data_ptr(),
                                            row_stride(d_gate)};
  const auto& table = kernels::for_elements(gate.scalar_type());
  const auto kernel = act.gated == GatedKernel::Silu ? table.silu_weighted_backward : table.gelu_tanh_weighted_backward;
  return [kernel, args = kernel_args(gate, up), weighted_args](int64_t first, int64_t count) {
    kernel(args, weighted_args, first, first + count);
  };
}

Tensor gated_activation(const Tensor& gate, const Tensor& up, const Activation& act) {
  require<ShapeError>(gate.dim() >= 1 && gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type(),
                      "[gated_activation] gate and up must have the same shape and dtype; got ", gate.sizes(), " ",
                      gate.scalar_type(), " and ", up.sizes(), " ", up.scalar_type(), ".");
  if (!needs_graph(gate) && !needs_graph(up) && has_plain_rows(gate) && has_plain_rows(up))
    return forward_rows(gate, up, act);
  return Gated::apply(gate, up, &act);
}

Tensor gated_activation(const Tensor& gate_up, const Activation& act) {
  require<ShapeError>(gate_up.dim() >= 1 && gate_up.size(-1) % 2 == 0,
                      "[gated_activation] the last dimension must contain gate and up, of equal size; got ",
                      gate_up.sizes(), ".");
  return GatedHalves::apply(gate_up, &act);
}

}  // namespace easydel::operations
