#include "easydel/operations/moe/cpu_experts.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations::cpu_experts {
namespace {

using at::Tensor;

constexpr int64_t kElements = 8;  // an exponential costs about as much

template <class A>
A sigmoid(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

template <class A>
void softmax(const A* x, int64_t count, A* out) {
  const A most = *std::max_element(x, x + count);
  A sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += out[i] = std::exp(x[i] - most);
  for (int64_t i = 0; i < count; ++i) out[i] /= sum;
}

template <class A>
void score(const A* logits, int64_t count, RouterScoring scoring, A* out) {
  if (scoring == RouterScoring::Softmax) return softmax(logits, count, out);
  for (int64_t i = 0; i < count; ++i) out[i] = scoring == RouterScoring::Sigmoid ? sigmoid(logits[i]) : logits[i];
}

// The highest scores first, of equal ones the first; NaN counts as the highest.
template <class A>
void choose(const A* scores, int64_t count, int64_t top_k, int64_t* chosen) {
  const auto is_before = [&](int64_t i, int64_t j) {
    return scores[i] > scores[j] || (std::isnan(scores[i]) && !std::isnan(scores[j]));
  };
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (size == top_k && !is_before(i, chosen[size - 1])) continue;
    int64_t at = size < top_k ? size++ : size - 1;
    for (; at > 0 && is_before(i, chosen[at - 1]); --at) chosen[at] = chosen[at - 1];
    chosen[at] = i;
  }
}

template <class A>
A floor_of_sum(RouterScoring scoring) {
  return scoring == RouterScoring::Sigmoid ? A(1e-20) : A(0);  // sigmoids may all be zero
}

// One token's. `space` has room for twice as many numbers as there are experts.
template <class A>
void route_token(const A* logits, int64_t count, const A* bias, const RouterOptions& options, A* space, A* weights,
                 int64_t* experts) {
  A *scores = space, *choice = bias ? space + count : scores;
  score(logits, count, options.scoring, scores);
  if (bias) std::transform(scores, scores + count, bias, choice, std::plus());
  choose(choice, count, options.top_k, experts);
  A sum = floor_of_sum<A>(options.scoring);
  for (int64_t k = 0; k < options.top_k; ++k) sum += weights[k] = scores[experts[k]];
  if (options.scoring == RouterScoring::SoftmaxOfChosen) {
    softmax(weights, options.top_k, weights);
  } else if (options.renormalize) {
    for (int64_t k = 0; k < options.top_k; ++k) weights[k] /= sum;
  }
  for (int64_t k = 0; k < options.top_k; ++k) weights[k] *= A(options.scale);
}

// d_x is zero before.
template <class A>
void route_token_backward(const A* x, int64_t count, const A* weights, const int64_t* experts, const A* d,
                          const RouterOptions& options, A* d_x) {
  const A scale = A(options.scale);
  A dot = 0;
  for (int64_t k = 0; k < options.top_k; ++k) dot += weights[k] * d[k] / scale;
  if (options.scoring == RouterScoring::Sigmoid) {
    A sum = floor_of_sum<A>(options.scoring);
    for (int64_t k = 0; k < options.top_k; ++k) sum += sigmoid(x[experts[k]]);
    for (int64_t k = 0; k < options.top_k; ++k) {
      const A s = sigmoid(x[experts[k]]), d_s = options.renormalize ? (d[k] - dot) / sum : d[k];
      d_x[experts[k]] = scale * d_s * s * (1 - s);
    }
    return;
  }
  // A renormalized softmax over all equals a softmax over the chosen ones.
  if (options.scoring == RouterScoring::Softmax && !options.renormalize) {
    softmax(x, count, d_x);
    for (int64_t e = 0; e < count; ++e) d_x[e] *= -scale * dot;
  }
  for (int64_t k = 0; k < options.top_k; ++k) d_x[experts[k]] = weights[k] * (d[k] - dot);
}

}  // namespace

bool can_route(const Tensor& logits) {
  return logits.is_cpu() && (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kDouble);
}

Routing route(const Tensor& logits_in, const RouterOptions& options) {
  const Tensor logits = logits_in.contiguous();
  const int64_t tokens = logits.size(0), count = logits.size(1), top_k = options.top_k;
  const Tensor bias =
      options.selection_bias.defined() ? options.selection_bias.detach().to(logits.options()).contiguous() : Tensor();
  const Routing routing{at::empty({tokens, top_k}, logits.options()),
                        at::empty({tokens, top_k}, logits.options().dtype(at::kLong))};
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "route", [&] {
    const auto* from = logits.const_data_ptr<scalar_t>();
    const auto* added = bias.defined() ? bias.const_data_ptr<scalar_t>() : nullptr;
    auto* weights = routing.weights.mutable_data_ptr<scalar_t>();
    auto* experts = routing.experts.mutable_data_ptr<int64_t>();
    for_rows(tokens, count * kElements, [&](int64_t begin, int64_t end) {
      std::vector<scalar_t> space(static_cast<std::size_t>(2 * count));
      for (int64_t t = begin; t < end; ++t)
        route_token(from + t * count, count, added, options, space.data(), weights + t * top_k, experts + t * top_k);
    });
  });
  return routing;
}

Tensor route_backward(const Tensor& logits_in, const Routing& routing, const Tensor& d_weights_in,
                      const RouterOptions& options) {
  const Tensor logits = logits_in.contiguous(), d_weights = d_weights_in.contiguous();
  const Tensor d_logits = at::zeros_like(logits);
  const int64_t tokens = logits.size(0), count = logits.size(1), top_k = options.top_k;
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "route_backward", [&] {
    const auto *x = logits.const_data_ptr<scalar_t>(), *d = d_weights.const_data_ptr<scalar_t>();
    const auto* weights = routing.weights.const_data_ptr<scalar_t>();
    const auto* experts = routing.experts.const_data_ptr<int64_t>();
    auto* d_x = d_logits.mutable_data_ptr<scalar_t>();
    for_rows(tokens, count, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t chosen = t * top_k, all = t * count;
        route_token_backward(x + all, count, weights + chosen, experts + chosen, d + chosen, options, d_x + all);
      }
    });
  });
  return d_logits;
}

Dispatch sort_by_expert(const Tensor& experts, int64_t num_experts) {
  const Tensor flat = experts.reshape({-1}).contiguous();
  Dispatch dispatch{.num_experts = num_experts,
                    .top_k = experts.size(1),
                    .order = at::empty_like(flat),
                    .inverse = at::empty_like(flat),
                    .ends = at::empty({num_experts}, flat.options().dtype(at::kInt)),
                    .host_ends = std::vector<int64_t>(static_cast<std::size_t>(num_experts))};
  const auto* expert = flat.const_data_ptr<int64_t>();
  auto *order = dispatch.order.mutable_data_ptr<int64_t>(), *inverse = dispatch.inverse.mutable_data_ptr<int64_t>();
  std::vector<int64_t>& ends = dispatch.host_ends;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    require<ShapeError>(expert[i] >= 0 && expert[i] < num_experts, "[make_dispatch] an expert must be in [0, ",
                        num_experts, "); got ", expert[i], ".");
    ++ends[static_cast<std::size_t>(expert[i])];
  }
  std::vector<int64_t> next(ends.size());
  std::exclusive_scan(ends.begin(), ends.end(), next.begin(), int64_t{0});
  std::inclusive_scan(ends.begin(), ends.end(), ends.begin());
  std::copy(ends.begin(), ends.end(), dispatch.ends.mutable_data_ptr<int32_t>());
  for (int64_t i = 0; i < flat.numel(); ++i) {
    inverse[i] = next[static_cast<std::size_t>(expert[i])]++;
    order[inverse[i]] = i;
  }
  return dispatch;
}

}  // namespace easydel::operations::cpu_experts
