#include "easydel/operations/moe/cuda_experts.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cuda/fused.h"

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/expert_rows.h"
#include "easydel/operations/kernels/cuda/grouped_kernels.h"
#include "easydel/operations/kernels/cuda/launch.h"
#endif

namespace easydel::operations::cuda_experts {

using at::Tensor;

#ifdef EASYDEL_CUDA_KERNELS

bool can_move(const Tensor& x) {
  return cuda_fused::applies(x) && x.dim() == 2 && x.numel() > 0 && x.size(1) * x.element_size() % 16 == 0 &&
         in_packs(x);
}

Tensor spread_rows(const Tensor& x_in, const Tensor& inverse, int64_t top_k) {
  const Tensor x = x_in.contiguous();
  const Tensor y = at::empty({inverse.numel(), x.size(1)}, x.options());
  const cuda_kernels::SpreadRows args{
      x.const_data_ptr(),          inverse.const_data_ptr<int64_t>(), y.mutable_data_ptr(), x.size(0), top_k,
      x.size(1) * x.element_size()};
  launch(x, [&](auto stream) { cuda_kernels::spread_rows(args, stream); });
  return y;
}

Tensor sum_rows(const Tensor& rows_in, const Tensor& inverse, const Tensor& weights, int64_t top_k) {
  const Tensor rows = rows_in.contiguous();
  const Tensor factors = weights.defined() ? weights.to(at::kFloat).contiguous() : Tensor();
  const Tensor y = at::empty({inverse.numel() / top_k, rows.size(1)}, rows.options());
  const cuda_kernels::SumRows args{rows.const_data_ptr(),
                                   inverse.const_data_ptr<int64_t>(),
                                   factors.defined() ? factors.const_data_ptr<float>() : nullptr,
                                   y.mutable_data_ptr(),
                                   y.size(0),
                                   top_k,
                                   y.size(1)};
  launch(rows, [&](auto stream) { cuda_kernels::sum_rows(element_of(rows), args, stream); });
  return y;
}

namespace {

cuda_kernels::Router router_of(const Tensor& logits, const RouterOptions& options) {
  using cuda_kernels::Scoring;
  return {.tokens = logits.size(0),
          .count = static_cast<int32_t>(logits.size(1)),
          .top_k = static_cast<int32_t>(options.top_k),
          .scoring = options.scoring == RouterScoring::Softmax   ? Scoring::Softmax
                     : options.scoring == RouterScoring::Sigmoid ? Scoring::Sigmoid
                                                                 : Scoring::SoftmaxOfChosen,
          .renormalize = options.renormalize,
          .scale = static_cast<float>(options.scale)};
}

}  // namespace

bool can_choose(const Tensor& scores) {
  return scores.is_cuda() && scores.scalar_type() == at::kFloat && scores.numel() > 0 &&
         scores.size(1) <= cuda_kernels::kMaxExperts;
}

Tensor choose_experts(const Tensor& scores_in, int64_t top_k) {
  const Tensor scores = scores_in.contiguous();
  const Tensor experts = at::empty({scores.size(0), top_k}, scores.options().dtype(at::kLong));
  cuda_kernels::Router router = router_of(scores, {.top_k = top_k});
  router.scoring = cuda_kernels::Scoring::None;
  const cuda_kernels::Route args{scores.const_data_ptr(), nullptr, nullptr, experts.mutable_data_ptr<int64_t>()};
  launch(scores, [&](auto stream) { cuda_kernels::route(element_of(scores), router, args, stream); });
  return experts;
}

bool can_route(const Tensor& logits) {
  return cuda_fused::applies(logits) && logits.numel() > 0 && logits.size(1) <= cuda_kernels::kMaxExperts;
}

Routing route(const Tensor& logits_in, const RouterOptions& options) {
  const Tensor logits = logits_in.contiguous();
  const Tensor bias = options.selection_bias.defined()
                          ? options.selection_bias.detach().to(logits.device(), at::kFloat).contiguous()
                          : Tensor();
  const Tensor weights = at::empty({logits.size(0), options.top_k}, logits.options().dtype(at::kFloat));
  const Tensor experts = at::empty(weights.sizes(), logits.options().dtype(at::kLong));
  const cuda_kernels::Route args{logits.const_data_ptr(), bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                                 weights.mutable_data_ptr<float>(), experts.mutable_data_ptr<int64_t>()};
  launch(logits,
         [&](auto stream) { cuda_kernels::route(element_of(logits), router_of(logits, options), args, stream); });
  return {weights, experts};
}

Tensor route_backward(const Tensor& logits_in, const Routing& routing, const Tensor& d_weights_in,
                      const RouterOptions& options) {
  const Tensor logits = logits_in.contiguous(), d_weights = d_weights_in.contiguous();
  const Tensor d_logits = at::empty_like(logits);
  const cuda_kernels::RouteBackward args{logits.const_data_ptr(), routing.weights.const_data_ptr<float>(),
                                         d_weights.const_data_ptr<float>(), routing.experts.const_data_ptr<int64_t>(),
                                         d_logits.mutable_data_ptr()};
  launch(logits, [&](auto stream) {
    cuda_kernels::route_backward(element_of(logits), router_of(logits, options), args, stream);
  });
  return d_logits;
}

bool can_sort(const Tensor& experts, int64_t num_experts) {
  return experts.is_cuda() && experts.numel() > 0 && num_experts > 0 && num_experts <= cuda_kernels::kMaxExperts;
}

Sorted sort_by_expert(const Tensor& experts_in, int64_t num_experts) {
  const Tensor experts = experts_in.contiguous();
  const auto count = static_cast<int32_t>(num_experts);
  Sorted sorted{at::empty({experts.numel()}, experts.options()), at::empty({experts.numel()}, experts.options()),
                at::empty({num_experts}, experts.options().dtype(at::kInt))};
  const Tensor scratch = at::empty({cuda_kernels::sort_scratch(experts.numel(), count)}, sorted.ends.options());
  const cuda_kernels::SortByExpert args{experts.const_data_ptr<int64_t>(),
                                        sorted.order.mutable_data_ptr<int64_t>(),
                                        sorted.inverse.mutable_data_ptr<int64_t>(),
                                        sorted.ends.mutable_data_ptr<int32_t>(),
                                        scratch.mutable_data_ptr<int32_t>(),
                                        experts.numel(),
                                        count};
  launch(experts, [&](auto stream) { cuda_kernels::sort_by_expert(args, stream); });
  return sorted;
}

WeightedGate weighted_gate_backward(const Tensor& gate_up, const Tensor& d_y, const Tensor& weights,
                                    const Tensor& order, bool gelu) {
  const Tensor factors = weights.to(at::kFloat).contiguous();
  WeightedGate result{at::empty_like(gate_up), at::empty_like(d_y), at::empty_like(factors)};
  const cuda_kernels::WeightedGateBackward args{gate_up.const_data_ptr(),
                                                d_y.const_data_ptr(),
                                                factors.const_data_ptr<float>(),
                                                order.const_data_ptr<int64_t>(),
                                                result.d_gate_up.mutable_data_ptr(),
                                                result.weighted.mutable_data_ptr(),
                                                result.d_weights.mutable_data_ptr<float>(),
                                                d_y.size(0),
                                                d_y.size(1),
                                                gelu};
  launch(d_y, [&](auto stream) { cuda_kernels::weighted_gate_backward(element_of(d_y), args, stream); });
  return result;
}

namespace {

cuda_kernels::ExpertsOfTokens tokens_of(const Tensor& x, const Routing& routing, const Tensor& gate_up,
                                        const Tensor& down, bool gelu) {
  return {.x = x.const_data_ptr(),
          .experts = routing.experts.const_data_ptr<int64_t>(),
          .weights = routing.weights.const_data_ptr<float>(),
          .gate_up = gate_up.const_data_ptr(),
          .down = down.const_data_ptr(),
          .inner = nullptr,
          .y = nullptr,
          .tokens = x.size(0),
          .top_k = routing.experts.size(1),
          .width = x.size(1),
          .inner_width = down.size(2),
          .count = static_cast<int32_t>(down.size(0)),
          .gelu = gelu,
          .norm = {},
          .residual = nullptr};
}

}  // namespace

bool can_multiply_tokens(const Tensor& x, const Routing& routing, const Tensor& gate_up, const Tensor& down,
                         const AroundProducts& around) {
  const auto is_readable = [&](const Tensor& t) {
    return t.is_cuda() && t.scalar_type() == x.scalar_type() && t.is_contiguous() && in_packs(t);
  };
  if (around.norm.defined() && (!is_readable(around.norm) || around.norm.numel() != x.size(-1))) return false;
  if (around.residual.defined() && (!is_readable(around.residual) || around.residual.sizes() != x.sizes()))
    return false;
  return cuda_fused::applies(x) && x.dim() == 2 && is_readable(x) && is_readable(gate_up) && is_readable(down) &&
         routing.weights.scalar_type() == at::kFloat && routing.weights.is_contiguous() &&
         routing.experts.is_contiguous() &&
         cuda_kernels::can_multiply_tokens(element_of(x), tokens_of(x, routing, gate_up, down, false));
}

Tensor multiply_tokens(const Tensor& x, const Routing& routing, const Tensor& gate_up, const Tensor& down, bool gelu,
                       const AroundProducts& around) {
  cuda_kernels::ExpertsOfTokens args = tokens_of(x, routing, gate_up, down, gelu);
  if (around.norm.defined()) args.norm = row_norm(x, around);
  if (around.residual.defined()) args.residual = around.residual.const_data_ptr();
  const Tensor inner = at::empty({args.tokens, args.top_k, args.inner_width}, x.options()), y = at::empty_like(x);
  args.inner = inner.mutable_data_ptr(), args.y = y.mutable_data_ptr();
  launch(x, [&](auto stream) { cuda_kernels::multiply_tokens(element_of(x), args, stream); });
  return y;
}

bool can_multiply(const Tensor& rows, int64_t out_features, const Tensor& ends) {
#ifdef EASYDEL_GROUPED_KERNELS
  constexpr int64_t kMax = int64_t{1} << 30;
  return rows.is_cuda() && rows.scalar_type() == at::kBFloat16 && rows.dim() == 2 && rows.numel() > 0 &&
         ends.numel() > 0 && rows.size(0) < kMax && rows.size(1) < kMax && out_features > 0 && out_features < kMax &&
         rows.size(1) % 8 == 0 && out_features % 8 == 0 && cuda_kernels::has_grouped_kernels(rows.device().index());
#else
  (void)rows, (void)out_features, (void)ends;
  return false;
#endif
}

#ifdef EASYDEL_GROUPED_KERNELS
namespace {

Tensor aligned(const Tensor& x) {
  const Tensor dense = x.contiguous();
  return in_packs(dense) ? dense : dense.clone();
}

cuda_kernels::ExpertEnds ends_of(const Tensor& ends, int64_t rows) {
  return {ends.const_data_ptr<int32_t>(), static_cast<int32_t>(ends.numel()), rows};
}

}  // namespace

Tensor grouped_product(const Tensor& rows_in, const Tensor& weights_in, bool k_first, const Tensor& ends) {
  const Tensor rows = aligned(rows_in), weights = aligned(weights_in);
  const Tensor y = at::empty({rows.size(0), weights.size(k_first ? 2 : 1)}, rows.options());
  const cuda_kernels::GroupedProduct args{
      rows.const_data_ptr(), weights.const_data_ptr(), y.mutable_data_ptr(), rows.size(1), y.size(1), k_first};
  launch(rows, [&](auto stream) { cuda_kernels::grouped_product(ends_of(ends, rows.size(0)), args, stream); });
  return y;
}

Gated gated_product(const Tensor& rows_in, const Tensor& weights_in, const Tensor& ends, bool gelu, bool keep) {
  const Tensor rows = aligned(rows_in), weights = aligned(weights_in);
  const int64_t width = weights.size(1) / 2;
  Gated y{keep ? at::empty({rows.size(0), 2 * width}, rows.options()) : Tensor(),
          at::empty({rows.size(0), width}, rows.options())};
  const cuda_kernels::GatedProduct args{rows.const_data_ptr(),
                                        weights.const_data_ptr(),
                                        keep ? y.gate_up.mutable_data_ptr() : nullptr,
                                        y.gated.mutable_data_ptr(),
                                        rows.size(1),
                                        width,
                                        gelu};
  launch(rows, [&](auto stream) { cuda_kernels::grouped_gated(ends_of(ends, rows.size(0)), args, stream); });
  return y;
}

Tensor grouped_outer(const Tensor& a_in, const Tensor& b_in, const Tensor& ends) {
  const Tensor a = aligned(a_in), b = aligned(b_in), y = at::empty({ends.numel(), a.size(1), b.size(1)}, a.options());
  const cuda_kernels::GroupedOuter args{a.const_data_ptr(), b.const_data_ptr(), y.mutable_data_ptr(), a.size(1),
                                        b.size(1)};
  launch(a, [&](auto stream) { cuda_kernels::grouped_outer(ends_of(ends, a.size(0)), args, stream); });
  return y;
}
#endif

#endif

#ifndef EASYDEL_GROUPED_KERNELS
namespace {
[[noreturn]] void missing() {
  fail<NotSupportedError>(
      "[operations] this build has no such GPU kernel: it was built without nvcc, or with an old one.");
}
}  // namespace
Tensor grouped_product(const Tensor&, const Tensor&, bool, const Tensor&) { missing(); }
Tensor grouped_outer(const Tensor&, const Tensor&, const Tensor&) { missing(); }
Gated gated_product(const Tensor&, const Tensor&, const Tensor&, bool, bool) { missing(); }
#endif

#ifndef EASYDEL_CUDA_KERNELS
bool can_move(const Tensor&) { return false; }
bool can_choose(const Tensor&) { return false; }
bool can_sort(const Tensor&, int64_t) { return false; }
bool can_multiply(const Tensor&, int64_t, const Tensor&) { return false; }
Tensor spread_rows(const Tensor&, const Tensor&, int64_t) { missing(); }
Tensor sum_rows(const Tensor&, const Tensor&, const Tensor&, int64_t) { missing(); }
Tensor choose_experts(const Tensor&, int64_t) { missing(); }
bool can_route(const Tensor&) { return false; }
Routing route(const Tensor&, const RouterOptions&) { missing(); }
Tensor route_backward(const Tensor&, const Routing&, const Tensor&, const RouterOptions&) { missing(); }
Sorted sort_by_expert(const Tensor&, int64_t) { missing(); }
bool can_multiply_tokens(const Tensor&, const Routing&, const Tensor&, const Tensor&, const AroundProducts&) {
  return false;
}
Tensor multiply_tokens(const Tensor&, const Routing&, const Tensor&, const Tensor&, bool, const AroundProducts&) {
  missing();
}
WeightedGate weighted_gate_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) { missing(); }
#endif

}  // namespace easydel::operations::cuda_experts
