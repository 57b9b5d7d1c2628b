// The two ways in which blockwise attention is computed. Both keep out and log-sum-exp alone, and make each block of
// scores again in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/operations/attention.h"

namespace easydel::operations::blockwise {

struct Forward {
  at::Tensor out;  // [B, T, N, V]
  at::Tensor lse;  // [B, N, T] in float32 or better; -inf for a query that sees nothing
};
struct Backward {
  at::Tensor d_q, d_k, d_v;
  at::Tensor d_sinks;  // undefined without sinks
};

// A task is a head and a block of queries, with scores that stay in the cache of its core.
Forward forward_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options);
Backward backward_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                         const Forward& forward, const at::Tensor& d_out);

// Blocks of all heads at once, in torch's operations: for any device.
Forward forward_composed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const AttentionOptions& options);
Backward backward_composed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, const Forward& forward, const at::Tensor& d_out);

// delta [B, N, T]: the sum of out * d_out over each head, which softmax's gradient needs.
at::Tensor delta_of(const Forward& forward, const at::Tensor& d_out);
at::Tensor sinks_gradient(const AttentionOptions& options, const Forward& forward, const at::Tensor& delta);

}  // namespace easydel::operations::blockwise
