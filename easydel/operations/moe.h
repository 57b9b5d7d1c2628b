// Mixture of experts: routing, dispatch sorted by expert, matrix products over stacked experts, and the balance loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "easydel/operations/weight_access.h"

// Letters: T tokens, E experts, k experts for each token, R = T * k rows sorted by expert, D features.
namespace easydel::operations {

enum class RouterScoring { Softmax, Sigmoid };

struct RouterOptions {
  int64_t top_k = 2;
  RouterScoring scoring = RouterScoring::Softmax;
  bool renormalize = true;    // the chosen weights sum to one
  double scale = 1.0;         // of the weights, after that
  at::Tensor selection_bias;  // [E]: added to the scores for the choice only
};

struct Routing {
  at::Tensor weights;  // [T, k] float32 or better
  at::Tensor experts;  // [T, k] int64
};

// logits [T, E]. ConfigError when top_k is not in [1, E].
Routing route(const at::Tensor& logits, const RouterOptions& options);

// What the load-balancing loss needs from one layer. Sums add up over layers and over ranks.
struct RouterStatistics {
  at::Tensor assignments;    // [E] how often each expert was among the top k
  at::Tensor probabilities;  // [E] sum of softmax(logits), with gradient
  at::Tensor tokens;         // one number
  RouterStatistics& operator+=(const RouterStatistics& other);
};

// attention_mask: [B, S] or [T]; zero: the token does not count. May be undefined.
RouterStatistics router_statistics(const at::Tensor& logits, int64_t top_k, const at::Tensor& attention_mask = {});
// Mixtral's auxiliary loss, as transformers computes it.
at::Tensor load_balancing_loss(const RouterStatistics& statistics);
at::Tensor load_balancing_loss(const std::vector<at::Tensor>& layer_logits, int64_t top_k,
                               const at::Tensor& attention_mask = {});

// The order in which rows lie when they are sorted by expert. Stable: within an expert, tokens keep their order.
struct Dispatch {
  int64_t num_experts = 0;
  int64_t top_k = 0;
  at::Tensor order;                // [R] which (token, slot) = token * k + slot each row is
  at::Tensor inverse;              // [R] the row of each (token, slot)
  at::Tensor ends;                 // [E] int32: the rows of expert e end here
  std::vector<int64_t> host_ends;  // the same on the host; empty on CUDA, where nothing waits for it
};

Dispatch make_dispatch(const at::Tensor& experts, int64_t num_experts);

// [T, D] to [R, D]: every token once for each of its experts.
at::Tensor dispatch_rows(const at::Tensor& x, const Dispatch& dispatch);
// Row r of expert e becomes weight[e] x[r] + bias[e]: x [R, in], weight [E, out, in], bias [E, out] or undefined.
// Experts without rows are not touched. `name` is for checkpoint policies, as in operations::linear. With an access,
// `weight` is the stored part of it, and the bias must be absent.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const Dispatch& dispatch, std::string_view name = {}, const WeightAccessPtr& access = {});
// [R, D] back to [T, D]: each token's rows, weighted and summed. weights [T, k].
at::Tensor combine_rows(const at::Tensor& rows, const at::Tensor& weights, const Dispatch& dispatch);

}  // namespace easydel::operations
