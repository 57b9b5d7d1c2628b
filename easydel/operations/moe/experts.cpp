#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/moe/grouped_product.h"
#include "easydel/operations/moe/moe.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Holder : torch::CustomClassHolder {
  WeightAccessPtr access;
  bool transposed = false;
  std::vector<int64_t> host_ends;

  // [E, in, out], in x's type.
  Tensor matrices(const Tensor& stored, const Tensor& x) const {
    const Tensor used = gather(stored, x.scalar_type(), access);
    return transposed ? used : used.transpose(1, 2);
  }
};

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, const Dispatch& dispatch, const GroupedWeight& how) {
    const Tensor bias = given_bias.value_or(Tensor());
    ctx->save_for_backward({x, weight, bias, dispatch.ends});
    auto holder = c10::make_intrusive<Holder>();
    holder->access = how.access;
    holder->transposed = how.transposed;
    holder->host_ends = dispatch.host_ends;
    ctx->saved_data["holder"] = c10::IValue::make_capsule(holder);
    return keep_dot(how.name, [&] {
      const Tensor y = grouped_product(x, holder->matrices(weight, x), {dispatch.ends, dispatch.host_ends});
      if (bias.defined()) y.add_(bias.to(x.scalar_type()).index_select(0, expert_of_row(dispatch.ends, x.size(0))));
      return y;
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("grouped_linear");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &ends = saved[3];
    const Tensor d_y = grads[0].contiguous();
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["holder"].toCapsule());
    const ExpertRows rows{ends, holder->host_ends};
    Tensor d_x, d_weight, d_bias;
    if (ctx->needs_input_grad(0)) d_x = grouped_product(d_y, holder->matrices(weight, x).transpose(1, 2), rows);
    if (ctx->needs_input_grad(1)) {
      d_weight = holder->transposed ? grouped_outer(x, d_y, rows) : grouped_outer(d_y, x, rows);
      d_weight = reduce(d_weight, holder->access).to(weight.scalar_type());
    }
    if (bias.defined() && ctx->needs_input_grad(2)) {
      d_bias = at::zeros(bias.sizes(), d_y.options())
                   .index_add_(0, expert_of_row(ends, x.size(0)), d_y)
                   .to(bias.scalar_type());
    }
    return {d_x, d_weight, d_bias, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor expert_of_row(const Tensor& ends, int64_t rows) {
  return at::searchsorted(ends, at::arange(rows, ends.options()), /*out_int32=*/false, /*right=*/true);
}

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dispatch& dispatch,
                      const GroupedWeight& how) {
  const int64_t in = how.transposed ? 1 : 2;
  require<ShapeError>(x.dim() == 2 && x.size(0) == dispatch.order.numel() && weight.dim() == 3 &&
                          (how.access || (weight.size(0) == dispatch.num_experts && weight.size(in) == x.size(1))),
                      "[grouped_linear] x must be [", dispatch.order.numel(), ", in] and weight [",
                      dispatch.num_experts, how.transposed ? ", in, out]; got " : ", out, in]; got ", x.sizes(),
                      " and ", weight.sizes(), ".");
  require<ShapeError>(!bias.defined() || how.access ||
                          (bias.dim() == 2 && bias.size(0) == weight.size(0) && bias.size(1) == weight.size(3 - in)),
                      "[grouped_linear] bias must be [", weight.size(0), ", ", weight.size(3 - in), "]; got ",
                      bias.defined() ? bias.sizes() : at::IntArrayRef(), ".");
  return GroupedLinear::apply(x.contiguous(), weight, kernels::as_optional(bias), dispatch, how);
}

}  // namespace easydel::operations
