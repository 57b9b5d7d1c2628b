// Mixture of experts: routing, dispatch sorted by expert, matrix products over stacked experts, and the balance loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "easydel/operations/activation.h"
#include "easydel/operations/linear/around_products.h"
#include "easydel/operations/linear/weight_access.h"

// Letters: T tokens, E experts, k experts for each token, R = T * k rows sorted by expert, D features.
namespace easydel::operations {

// SparseMixer chooses two experts. The weight of each is its share in the softmax over the experts left whose scores
// come near the best one's, within 2 * `nearness` of it, as phimoe does it outside of training.
enum class RouterScoring { Softmax, Sigmoid, SoftmaxOfChosen, SparseMixer };

struct RouterOptions {
  int64_t top_k = 2;
  RouterScoring scoring = RouterScoring::Softmax;
  bool renormalize = true;    // the chosen weights sum to one
  double least_sum = 0;       // renormalize: divide by no less
  double nearness = 0.01;     // SparseMixer
  double scale = 1.0;         // of the weights, after that
  at::Tensor selection_bias;  // [E]: added to the scores for the choice only
  // Group-limited routing: experts are in `groups` equal groups, and a token goes to experts of its `top_groups` best
  // ones, by the sum of the `group_best` highest scores in each.
  int64_t groups = 1, top_groups = 1, group_best = 1;
};

struct Routing {
  at::Tensor weights;  // [T, k] float32 or better
  at::Tensor experts;  // [T, k] int64
};

// logits [T, E]. ConfigError when top_k is not in [1, E], or the chosen groups have fewer experts.
Routing route(const at::Tensor& logits, const RouterOptions& options);

// What the load-balancing loss needs from one layer. Sums add up over layers and over ranks.
struct RouterStatistics {
  at::Tensor assignments;    // [E] how often each expert was among the top k
  at::Tensor probabilities;  // [E] sum of softmax(logits), with gradient
  at::Tensor tokens;         // one number
  at::Tensor entropy;        // one number: the sum of the tokens' entropies, without gradient
  RouterStatistics& operator+=(const RouterStatistics& other);
};

// attention_mask: [B, S] or [T]; zero: the token is ignored. May be undefined.
RouterStatistics router_statistics(const at::Tensor& logits, int64_t top_k, const at::Tensor& attention_mask = {});
// Mixtral's auxiliary loss, as transformers computes it.
at::Tensor load_balancing_loss(const RouterStatistics& statistics);
// Rows of the busiest expert divided by the mean of all.
at::Tensor router_load_max(const RouterStatistics& statistics);
at::Tensor load_balancing_loss(const std::vector<at::Tensor>& layer_logits, int64_t top_k,
                               const at::Tensor& attention_mask = {});

// The order of rows sorted by expert. Stable: within an expert, tokens keep their order.
struct Dispatch {
  int64_t num_experts = 0;
  int64_t top_k = 0;
  at::Tensor order;                // [R] which (token, slot) = token * k + slot each row is
  at::Tensor inverse;              // [R] the row of each (token, slot)
  at::Tensor ends;                 // [E] int32: the rows of expert e end here
  std::vector<int64_t> host_ends;  // the same on the host; empty on CUDA, to avoid a synchronization
};

Dispatch make_dispatch(const at::Tensor& experts, int64_t num_experts);
at::Tensor expert_of_row(const at::Tensor& ends, int64_t rows);  // [rows]

// [T, D] to [R, D]: every token once for each of its experts.
at::Tensor dispatch_rows(const at::Tensor& x, const Dispatch& dispatch);
struct GroupedWeight {
  bool transposed = false;     // [E, in, out]
  WeightAccessPtr access;      // `weight` is the stored part of it
  std::string_view name = {};  // for checkpoint policies, as in operations::linear
};
// Row r of expert e becomes weight[e] x[r] + bias[e]: x [R, in], weight [E, out, in], bias [E, out] or undefined.
// Experts without rows are not touched.
at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const Dispatch& dispatch, const GroupedWeight& how = {});
// The gate of gpt_oss, for interleaved gate and up in the last dimension: (up + 1) * gate * sigmoid(alpha * gate),
// after up is clamped to [-limit, limit] and gate from above.
struct ClampedGate {
  double alpha = 1.702, limit = 7.0;
};
at::Tensor clamped_gate(const at::Tensor& gate_up, const ClampedGate& gate);
// [R, D] back to [T, D]: each token's rows, weighted and summed. weights [T, k].
at::Tensor combine_rows(const at::Tensor& rows, const at::Tensor& weights, const Dispatch& dispatch);

// Stacked experts without biases: gate_up [E, 2I, D] with the gate's rows first, down [E, D, I], as stored.
struct StackedExperts {
  at::Tensor gate_up, down;
  const Activation* act = nullptr;
  WeightAccessPtr gate_up_access = {}, down_access = {};
};
// dispatch_rows, grouped_linear, gated_activation, grouped_linear and combine_rows in one: x [T, D] to [T, D]. Keeps x
// (on CUDA its sorted rows) and the activation's input for backward. On the CPU threads take experts, or pieces of
// them, dynamically.
at::Tensor fused_experts(const at::Tensor& x, const at::Tensor& weights, const StackedExperts& experts,
                         const Dispatch& dispatch);
// The same for a few tokens on a GPU, without sorting their rows; nullopt where there is no kernel for that, or a
// gradient is needed.
std::optional<at::Tensor> experts_of_few_tokens(const at::Tensor& x, const Routing& routing,
                                                const StackedExperts& experts, const AroundProducts& around = {});

}  // namespace easydel::operations
