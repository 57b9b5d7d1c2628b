// The two implementations of blockwise attention. Both keep only out and log-sum-exp, and recompute each block of
// scores in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/operations/attention/attention.h"

namespace easydel::operations::blockwise {

struct Forward {
  at::Tensor out;  // [B, T, N, V] in q's type, or in that of lse
  at::Tensor lse;  // [B, N, T] in float32 or better; -inf for a query without visible keys
};
struct Backward {
  at::Tensor d_q, d_k, d_v;
  at::Tensor d_sinks;  // undefined without sinks
  at::Tensor d_bias;   // of the bias's shape; undefined unless requested
};

enum class OutType { Same, Wide };  // q's, or float32 or better, for further accumulation

// Dispatches by q's device and type. Gradients are in float32 or better; that of the bias only with `bias_grad`.
Forward forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                OutType out_type = OutType::Same);
Backward backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                  const Forward& forward, const at::Tensor& d_out, bool bias_grad = false);

// The result of a query without visible keys: zeros, and a log-sum-exp of -inf. Wide.
Forward nothing_seen(const at::Tensor& q, int64_t value_size);

// A task is a head and a block of queries, whose scores stay in the core's cache.
Forward forward_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                       OutType out_type = OutType::Same);
Backward backward_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                         const Forward& forward, const at::Tensor& d_out);

// Blocks of all heads at once, in torch's operations: for any device.
Forward forward_composed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                         OutType out_type = OutType::Same);
Backward backward_composed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, const Forward& forward, const at::Tensor& d_out,
                           bool bias_grad = false);

// delta [B, N, T]: the sum of out * d_out over each head, which softmax's gradient needs.
at::Tensor delta_of(const Forward& forward, const at::Tensor& d_out);
at::Tensor sinks_gradient(const AttentionOptions& options, const Forward& forward, const at::Tensor& delta);

}  // namespace easydel::operations::blockwise
