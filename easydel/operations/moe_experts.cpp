#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/rows.h"
#include "easydel/operations/moe.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Each token's k rows lie anywhere in the sorted order; taken back through `inverse` they stand side by side.
Tensor by_token(const Tensor& rows, const Tensor& inverse, int64_t top_k) {
  return rows.index_select(0, inverse).view({-1, top_k, rows.size(1)});
}

struct DispatchRows : torch::autograd::Function<DispatchRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& order, const Tensor& inverse,
                        int64_t top_k) {
    ctx->save_for_backward({inverse});
    ctx->saved_data["top_k"] = top_k;
    return x.index_select(0, at::div(order, top_k, "floor"));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("dispatch_rows");
    const Tensor inverse = ctx->get_saved_variables()[0];
    return {by_token(grads[0], inverse, ctx->saved_data["top_k"].toInt()).sum(1), Tensor(), Tensor(), Tensor()};
  }
};

struct CombineRows : torch::autograd::Function<CombineRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& weights, const Tensor& order,
                        const Tensor& inverse) {
    ctx->save_for_backward({rows, weights, order, inverse});
    const Tensor factors = weights.to(rows.scalar_type()).unsqueeze(1);  // [T, 1, k]
    return at::bmm(factors, by_token(rows, inverse, weights.size(1))).squeeze(1);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("combine_rows");
    const auto saved = ctx->get_saved_variables();
    const Tensor &rows = saved[0], &weights = saved[1], &order = saved[2], &inverse = saved[3], &d_y = grads[0];
    const int64_t top_k = weights.size(1);
    Tensor d_rows, d_weights;
    if (ctx->needs_input_grad(0)) {
      const Tensor factor = weights.to(rows.scalar_type()).reshape({-1}).index_select(0, order).unsqueeze(1);
      d_rows = d_y.index_select(0, at::div(order, top_k, "floor")).mul_(factor);
    }
    if (ctx->needs_input_grad(1)) {
      d_weights = at::bmm(by_token(rows, inverse, top_k), d_y.unsqueeze(2)).squeeze(2).to(weights.scalar_type());
    }
    return {d_rows, d_weights, Tensor(), Tensor()};
  }
};

// One kernel for all experts, where torch has it: bfloat16 on CUDA, rows of 16 bytes.
bool has_grouped_kernel(const Tensor& x, int64_t out_features, int64_t experts) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.size(1) % 8 == 0 && out_features % 8 == 0 &&
         x.size(0) > 0 && experts > 0;
}

std::vector<int64_t> to_host(const Tensor& device_ends) {
  const Tensor ends = device_ends.to(at::kCPU, at::kLong);
  return {ends.const_data_ptr<int64_t>(), ends.const_data_ptr<int64_t>() + ends.numel()};
}

// f(expert, first row, rows) for each expert that has some.
template <class F>
void for_experts(const std::vector<int64_t>& ends, const F& f) {
  int64_t begin = 0;
  for (std::size_t expert = 0; expert < ends.size(); begin = ends[expert++]) {
    if (ends[expert] > begin) f(static_cast<int64_t>(expert), begin, ends[expert] - begin);
  }
}

// x[r] @ matrices[e] for each row r of expert e.
Tensor grouped_product(const Tensor& x, const Tensor& matrices, const Tensor& ends,
                       const std::optional<std::vector<int64_t>>& host_ends) {
  if (!host_ends) return at::_grouped_mm(x, matrices, ends);
  Tensor y = at::empty({x.size(0), matrices.size(2)}, x.options());
  for_experts(*host_ends, [&](int64_t expert, int64_t at, int64_t count) {
    Tensor rows = y.narrow(0, at, count);
    at::mm_out(rows, x.narrow(0, at, count), matrices.select(0, expert));
  });
  return y;
}

struct AccessHolder : torch::CustomClassHolder {
  WeightAccessPtr access;
};

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, const Dispatch& dispatch, std::string_view name,
                        const WeightAccessPtr& access) {
    const Tensor bias = given_bias.value_or(Tensor());
    const Tensor& ends = dispatch.ends;
    ctx->save_for_backward({x, weight, bias, ends});
    auto holder = c10::make_intrusive<AccessHolder>();
    holder->access = access;
    ctx->saved_data["access"] = c10::IValue::make_capsule(holder);
    return keep_dot(name, [&] {
      const Tensor used = gather(weight, x.scalar_type(), access);
      std::optional<std::vector<int64_t>> host_ends;
      if (!has_grouped_kernel(x, used.size(1), used.size(0))) {
        host_ends = dispatch.host_ends.empty() ? to_host(ends) : dispatch.host_ends;
      }
      Tensor y = grouped_product(x, used.transpose(1, 2), ends, host_ends);
      if (bias.defined()) y.add_(bias.to(x.scalar_type()).index_select(0, expert_of_row(ends, x.size(0))));
      return y;
    });
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("grouped_linear");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &ends = saved[3];
    const Tensor d_y = grads[0].contiguous();
    const WeightAccessPtr access =
        c10::static_intrusive_pointer_cast<AccessHolder>(ctx->saved_data["access"].toCapsule())->access;
    std::optional<std::vector<int64_t>> host_ends;
    if (!has_grouped_kernel(x, d_y.size(1), ends.size(0))) host_ends = to_host(ends);
    Tensor d_x, d_weight, d_bias;
    if (ctx->needs_input_grad(0)) {
      d_x = grouped_product(d_y, gather(weight, x.scalar_type(), access), ends, host_ends);
    }
    if (ctx->needs_input_grad(1)) {
      if (!host_ends) {
        d_weight = at::_grouped_mm(d_y.t(), x, ends);
      } else {
        d_weight = at::zeros({ends.size(0), d_y.size(1), x.size(1)}, x.options());
        for_experts(*host_ends, [&](int64_t expert, int64_t at, int64_t count) {
          Tensor target = d_weight.select(0, expert);
          at::mm_out(target, d_y.narrow(0, at, count).t(), x.narrow(0, at, count));
        });
      }
      d_weight = reduce(d_weight, access).to(weight.scalar_type());
    }
    if (bias.defined() && ctx->needs_input_grad(2)) {
      d_bias = at::zeros(bias.sizes(), d_y.options())
                   .index_add_(0, expert_of_row(ends, x.size(0)), d_y)
                   .to(bias.scalar_type());
    }
    return {d_x, d_weight, d_bias, Tensor(), Tensor(), Tensor()};
  }

  static Tensor expert_of_row(const Tensor& ends, int64_t rows) {
    return at::searchsorted(ends, at::arange(rows, ends.options()), /*out_int32=*/false, /*right=*/true);
  }
};

}  // namespace

Dispatch make_dispatch(const Tensor& experts, int64_t num_experts) {
  require<ShapeError>(experts.dim() == 2 && experts.scalar_type() == at::kLong,
                      "[make_dispatch] experts must be int64 [tokens, top_k]; got ", experts.scalar_type(), " ",
                      experts.sizes(), ".");
  if (experts.is_cpu() && experts.numel() > 0) {  // elsewhere the check would wait for the device
    const Tensor outside = experts.masked_select(experts.lt(0).logical_or_(experts.ge(num_experts)));
    require<ShapeError>(outside.numel() == 0, "[make_dispatch] an expert must be in [0, ", num_experts, "); got ",
                        outside.numel() ? outside[0].item<int64_t>() : 0, ".");
  }
  Dispatch dispatch;
  dispatch.num_experts = num_experts;
  dispatch.top_k = experts.size(1);
  const Tensor flat = experts.reshape({-1});
  dispatch.order = at::argsort(flat, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  dispatch.inverse = at::empty_like(dispatch.order);
  dispatch.inverse.scatter_(0, dispatch.order, at::arange(flat.numel(), flat.options()));
  const Tensor counts = at::zeros({num_experts}, flat.options()).scatter_add_(0, flat, at::ones_like(flat));
  const Tensor ends = counts.cumsum(0);
  dispatch.ends = ends.to(at::kInt);
  if (flat.is_cpu()) {
    dispatch.host_ends.assign(ends.const_data_ptr<int64_t>(), ends.const_data_ptr<int64_t>() + num_experts);
  }
  return dispatch;
}

Tensor dispatch_rows(const Tensor& x, const Dispatch& dispatch) {
  require<ShapeError>(x.dim() == 2 && x.size(0) * dispatch.top_k == dispatch.order.numel(),
                      "[dispatch_rows] x must be [", dispatch.order.numel() / dispatch.top_k, ", features]; got ",
                      x.sizes(), ".");
  return DispatchRows::apply(x, dispatch.order, dispatch.inverse, dispatch.top_k);
}

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dispatch& dispatch,
                      std::string_view name, const WeightAccessPtr& access) {
  require<ShapeError>(x.dim() == 2 && x.size(0) == dispatch.order.numel() && weight.dim() == 3 &&
                          (access || (weight.size(0) == dispatch.num_experts && weight.size(2) == x.size(1))),
                      "[grouped_linear] x must be [", dispatch.order.numel(), ", in] and weight [",
                      dispatch.num_experts, ", out, in]; got ", x.sizes(), " and ", weight.sizes(), ".");
  require<ShapeError>(
      !bias.defined() || (bias.dim() == 2 && bias.size(0) == weight.size(0) && bias.size(1) == weight.size(1)),
      "[grouped_linear] bias must be [", weight.size(0), ", ", weight.size(1), "]; got ",
      bias.defined() ? bias.sizes() : at::IntArrayRef(), ".");
  return GroupedLinear::apply(x.contiguous(), weight, kernels::as_optional(bias), dispatch, name, access);
}

Tensor combine_rows(const Tensor& rows, const Tensor& weights, const Dispatch& dispatch) {
  require<ShapeError>(rows.dim() == 2 && rows.size(0) == dispatch.order.numel() && weights.numel() == rows.size(0) &&
                          weights.dim() == 2 && weights.size(1) == dispatch.top_k,
                      "[combine_rows] rows must be [", dispatch.order.numel(), ", features] and weights [tokens, ",
                      dispatch.top_k, "]; got ", rows.sizes(), " and ", weights.sizes(), ".");
  return CombineRows::apply(rows, weights, dispatch.order, dispatch.inverse);
}

}  // namespace easydel::operations
