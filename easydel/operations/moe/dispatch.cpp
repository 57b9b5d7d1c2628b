#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/moe/cpu_experts.h"
#include "easydel/operations/moe/cuda_experts.h"
#include "easydel/operations/moe/row_work.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Each token's k rows are anywhere in the sorted order; `inverse` makes them adjacent again.
Tensor by_token(const Tensor& rows, const Tensor& inverse, int64_t top_k) {
  return rows.index_select(0, inverse).view({-1, top_k, rows.size(1)});
}

struct DispatchRows : torch::autograd::Function<DispatchRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Dispatch& dispatch) {
    ctx->save_for_backward({dispatch.inverse});
    ctx->saved_data["top_k"] = dispatch.top_k;
    return spread_rows(x, dispatch);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("dispatch_rows");
    Dispatch dispatch;
    dispatch.inverse = ctx->get_saved_variables()[0];
    dispatch.top_k = ctx->saved_data["top_k"].toInt();
    return {sum_rows(grads[0], {}, dispatch), Tensor()};
  }
};

struct CombineRows : torch::autograd::Function<CombineRows> {
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& weights, const Dispatch& dispatch) {
    ctx->save_for_backward({rows, weights, dispatch.order, dispatch.inverse});
    return sum_rows(rows, weights, dispatch);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("combine_rows");
    const auto saved = ctx->get_saved_variables();
    const Tensor &rows = saved[0], &weights = saved[1], &d_y = grads[0];
    Dispatch dispatch;
    dispatch.order = saved[2], dispatch.inverse = saved[3], dispatch.top_k = weights.size(1);
    Tensor d_rows, d_weights;
    if (ctx->needs_input_grad(0)) {
      const Tensor factor = weights.to(rows.scalar_type()).reshape({-1}).index_select(0, dispatch.order).unsqueeze(1);
      d_rows = spread_rows(d_y, dispatch).mul_(factor);
    }
    if (ctx->needs_input_grad(1)) {
      const Tensor of_token = by_token(rows, dispatch.inverse, dispatch.top_k);
      d_weights = at::bmm(of_token, d_y.unsqueeze(2)).squeeze(2).to(weights.scalar_type());
    }
    return {d_rows, d_weights, Tensor()};
  }
};

}  // namespace

Tensor spread_rows(const Tensor& x, const Dispatch& dispatch) {
  if (cuda_experts::can_move(x)) return cuda_experts::spread_rows(x, dispatch.inverse, dispatch.top_k);
  return x.index_select(0, at::div(dispatch.order, dispatch.top_k, "floor"));
}

Tensor sum_rows(const Tensor& rows, const Tensor& weights, const Dispatch& dispatch) {
  if (cuda_experts::can_move(rows)) return cuda_experts::sum_rows(rows, dispatch.inverse, weights, dispatch.top_k);
  const Tensor of_token = by_token(rows, dispatch.inverse, dispatch.top_k);
  if (!weights.defined()) return of_token.sum(1);
  return at::bmm(weights.to(rows.scalar_type()).unsqueeze(1), of_token).squeeze(1);
}

Dispatch make_dispatch(const Tensor& experts, int64_t num_experts) {
  require<ShapeError>(experts.dim() == 2 && experts.scalar_type() == at::kLong,
                      "[make_dispatch] experts must be int64 [tokens, top_k]; got ", experts.scalar_type(), " ",
                      experts.sizes(), ".");
  if (experts.is_cpu()) return cpu_experts::sort_by_expert(experts, num_experts);
  Dispatch dispatch;
  dispatch.num_experts = num_experts;
  dispatch.top_k = experts.size(1);
  const Tensor flat = experts.reshape({-1});
  if (cuda_experts::can_sort(flat, num_experts)) {
    const cuda_experts::Sorted sorted = cuda_experts::sort_by_expert(flat, num_experts);
    dispatch.order = sorted.order, dispatch.inverse = sorted.inverse, dispatch.ends = sorted.ends;
    return dispatch;
  }
  dispatch.order = at::argsort(flat, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  dispatch.inverse = at::empty_like(dispatch.order);
  dispatch.inverse.scatter_(0, dispatch.order, at::arange(flat.numel(), flat.options()));
  const Tensor counts = at::zeros({num_experts}, flat.options()).scatter_add_(0, flat, at::ones_like(flat));
  dispatch.ends = counts.cumsum(0).to(at::kInt);
  return dispatch;
}

Tensor dispatch_rows(const Tensor& x, const Dispatch& dispatch) {
  require<ShapeError>(x.dim() == 2 && x.size(0) * dispatch.top_k == dispatch.order.numel(),
                      "[dispatch_rows] x must be [", dispatch.order.numel() / dispatch.top_k, ", features]; got ",
                      x.sizes(), ".");
  return DispatchRows::apply(x, dispatch);
}

Tensor combine_rows(const Tensor& rows, const Tensor& weights, const Dispatch& dispatch) {
  require<ShapeError>(rows.dim() == 2 && rows.size(0) == dispatch.order.numel() && weights.numel() == rows.size(0) &&
                          weights.dim() == 2 && weights.size(1) == dispatch.top_k,
                      "[combine_rows] rows must be [", dispatch.order.numel(), ", features] and weights [tokens, ",
                      dispatch.top_k, "]; got ", rows.sizes(), " and ", weights.sizes(), ".");
  return CombineRows::apply(rows, weights, dispatch);
}

}  // namespace easydel::operations
