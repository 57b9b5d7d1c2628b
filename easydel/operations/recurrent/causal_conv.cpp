#include "easydel/operations/recurrent/causal_conv.h"

#include <ATen/ATen.h>

namespace easydel::operations {
namespace {

at::Tensor with_history(const at::Tensor& x, const at::Tensor& before, int64_t history) {
  if (!before.defined()) return at::constant_pad_nd(x, {0, 0, history, 0});
  return history == 0 ? x : at::cat({before.to(x.scalar_type()), x}, 1);
}

}  // namespace

at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& before,
                       const at::Tensor& runs) {
  const int64_t tokens = x.size(1), taps = weight.size(2);
  const at::ScalarType wide = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor all = with_history(x, before, taps - 1).to(wide);
  const at::Tensor factors = weight.select(1, 0).to(wide).t();  // [K, C]
  if (tokens == 1 && !runs.defined()) {                         // one product for all taps
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
