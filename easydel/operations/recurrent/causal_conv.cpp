#include "easydel/operations/recurrent/causal_conv.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"

namespace easydel::operations {
namespace {

at::Tensor with_history(const at::Tensor& x, const at::Tensor& before, int64_t history) {
  if (!before.defined()) return at::constant_pad_nd(x, {0, 0, history, 0});
  return history == 0 ? x : at::cat({before.to(x.scalar_type()), x}, 1);
}

at::Tensor factors_of(const at::Tensor& weight, at::ScalarType type) { return weight.select(1, 0).to(type).t(); }

// On a GPU: one kernel forward, one backward and the sum of its parts. Only x is kept.
struct CausalConvOnCuda : torch::autograd::Function<CausalConvOnCuda> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& given_bias, const std::optional<at::Tensor>& given_runs) {
    const at::Tensor bias = given_bias.value_or(at::Tensor()), runs = given_runs.value_or(at::Tensor());
    ctx->save_for_backward({x, weight, bias, runs});
    return cuda_fused::causal_conv(x, factors_of(weight, at::kFloat).contiguous(),
                                   bias.defined() ? bias.to(at::kFloat).contiguous() : bias, runs);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    kernels::require_first_derivative("causal_conv");
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &runs = saved[3];
    const auto [d_x, sums] =
        cuda_fused::causal_conv_backward(x, factors_of(weight, at::kFloat).contiguous(), runs, grads[0]);
    const int64_t taps = weight.size(2);
    return {d_x, sums.narrow(0, 0, taps).t().unsqueeze(1).to(weight.scalar_type()).contiguous(),
            bias.defined() ? sums[taps].to(bias.scalar_type()) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& before,
                       const at::Tensor& runs) {
  const int64_t tokens = x.size(1), taps = weight.size(2);
  if (tokens > 1 && !before.defined() && cuda_fused::can_causal_conv(x, taps, runs))
    return CausalConvOnCuda::apply(x, weight, kernels::as_optional(bias), kernels::as_optional(runs));
  const at::ScalarType wide = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor all = with_history(x, before, taps - 1).to(wide);
  const at::Tensor factors = factors_of(weight, wide);  // [K, C]
  if (tokens == 1 && !runs.defined()) {                 // one product for all taps
    const at::Tensor y = (all * factors).sum(1, /*keepdim=*/true);
    return (bias.defined() ? y + bias.to(wide) : y).to(x.scalar_type());
  }
  at::Tensor y = all.narrow(1, taps - 1, tokens).mul(factors[taps - 1]);
  for (int64_t k = 0; k + 1 < taps; ++k) {
    at::Tensor seen = all.narrow(1, k, tokens);
    if (runs.defined()) {
      const at::Tensor then = at::constant_pad_nd(runs, {taps - 1, 0}, -1).narrow(1, k, tokens);
      seen = seen.masked_fill(then.ne(runs).unsqueeze(2), 0);
    }
    y = at::addcmul(y, seen, factors[k]);
  }
  if (bias.defined()) y = y + bias.to(wide);
  return y.to(x.scalar_type());
}

at::Tensor last_inputs(const at::Tensor& x, const at::Tensor& before, int64_t taps) {
  const at::Tensor all = with_history(x, before, taps - 1);
  return all.narrow(1, all.size(1) - (taps - 1), taps - 1);
}

}  // namespace easydel::operations
