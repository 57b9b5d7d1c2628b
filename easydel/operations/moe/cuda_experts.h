// GPU kernels for rows of experts, if built with nvcc. No gradients. Rows are sorted by expert;
// `inverse` and `order` are those of Dispatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "easydel/operations/moe/moe.h"

namespace easydel::operations::cuda_experts {

// Whether rows of this type and width can be moved by these kernels.
bool can_move(const at::Tensor& x);
at::Tensor spread_rows(const at::Tensor& x, const at::Tensor& inverse, int64_t top_k);
// weights [tokens, top_k] of any type, or undefined.
at::Tensor sum_rows(const at::Tensor& rows, const at::Tensor& inverse, const at::Tensor& weights, int64_t top_k);

// The top_k highest scores [rows, E] of each row, which are float32: [rows, top_k], highest first.
bool can_choose(const at::Tensor& scores);
at::Tensor choose_experts(const at::Tensor& scores, int64_t top_k);

// As operations::route, without groups and with a scale that is not 0, and what the logits get of the weights'
// gradient.
bool can_route(const at::Tensor& logits);
Routing route(const at::Tensor& logits, const RouterOptions& options);
at::Tensor route_backward(const at::Tensor& logits, const Routing& routing, const at::Tensor& d_weights,
                          const RouterOptions& options);

bool can_sort(const at::Tensor& experts, int64_t num_experts);
struct Sorted {
  at::Tensor order, inverse, ends;
};
Sorted sort_by_expert(const at::Tensor& experts, int64_t num_experts);

// Of act(gate) * up and its weight, for rows of gate and up and the gradient d_y of act(gate) * up * weight over
// weight.
struct WeightedGate {
  at::Tensor d_gate_up, weighted, d_weights;  // weighted: act(gate) * up * weight
};
WeightedGate weighted_gate_backward(const at::Tensor& gate_up, const at::Tensor& d_y, const at::Tensor& weights,
                                    const at::Tensor& order, bool gelu);

// The experts of up to eight tokens [T, D], whose rows are not sorted for it; gate_up [E, 2I, D], the gate's rows
// first, and down [E, D, I], dense and of x's type.
bool can_multiply_tokens(const at::Tensor& x, const Routing& routing, const at::Tensor& gate_up, const at::Tensor& down,
                         const AroundProducts& around);
at::Tensor multiply_tokens(const at::Tensor& x, const Routing& routing, const at::Tensor& gate_up,
                           const at::Tensor& down, bool gelu, const AroundProducts& around);

// Whether there is a kernel for all experts, whose rows end at `ends`: bfloat16 on a GPU of compute capability 9.0,
// rows of 16 bytes.
bool can_multiply(const at::Tensor& rows, int64_t out_features, const at::Tensor& ends);
// As operations::grouped_product; weights [E, out, in], or with k_first [E, in, out], dense.
at::Tensor grouped_product(const at::Tensor& rows, const at::Tensor& weights, bool k_first, const at::Tensor& ends);
at::Tensor grouped_outer(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends);
// grouped_product with weights [E, 2I, in], and act(gate) * up of its halves; gate_up only if it is kept.
struct Gated {
  at::Tensor gate_up, gated;
};
Gated gated_product(const at::Tensor& rows, const at::Tensor& weights, const at::Tensor& ends, bool gelu, bool keep);

}  // namespace easydel::operations::cuda_experts
