#include "easydel/operations/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor cast(const Tensor& parameter, const Tensor& x) {
  return parameter.defined() ? parameter.to(x.scalar_type()) : parameter;
}

// Saves the parameter as it is stored and casts it again in backward: no second copy of the weights is held.
struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, std::string_view name) {
    const Tensor bias = given_bias.value_or(Tensor());
    ctx->save_for_backward({x, weight, bias});
    return keep_dot(name, [&] { return at::linear(x, cast(weight, x), cast(bias, x)); });
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("linear");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &d_y = grads[0];
    Tensor d_x, d_weight, d_bias;
    if (ctx->needs_input_grad(0)) d_x = at::matmul(d_y, cast(weight, x));
    const Tensor rows = d_y.reshape({-1, d_y.size(-1)});
    if (ctx->needs_input_grad(1)) {
      d_weight = at::mm(rows.t(), x.reshape({-1, x.size(-1)})).to(weight.scalar_type());
    }
    if (bias.defined() && ctx->needs_input_grad(2)) d_bias = rows.sum(0).to(bias.scalar_type());
    return {d_x, d_weight, d_bias, Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, std::string_view name) {
  require<ShapeError>(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1),
                      "[linear] x's last dimension must be the weight's second; got ", x.sizes(), " and ",
                      weight.sizes(), ".");
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "[linear] bias must be [",
                      weight.size(0), "]; got ", bias.defined() ? bias.sizes() : at::IntArrayRef{}, ".");
  const bool casts =
      weight.scalar_type() != x.scalar_type() || (bias.defined() && bias.scalar_type() != x.scalar_type());
  if (!casts && !inside_checkpoint()) return at::linear(x, weight, bias);
  return Linear::apply(x, weight, kernels::as_optional(bias), name);
}

}  // namespace easydel::operations
