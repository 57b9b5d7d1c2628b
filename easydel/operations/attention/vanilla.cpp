// The reference: full matrices, every step in float32 or better.
#include <ATen/ATen.h>

#include <limits>

#include "easydel/core/dtype.h"
#include "easydel/operations/attention/mechanisms.h"
#include "easydel/operations/dropout.h"

namespace easydel::operations {

using at::Tensor;

AttentionOutput vanilla_attention(const Tensor& q_BTNH, const Tensor& k_BSKH, const Tensor& v_BSKV,
                                  const AttentionOptions& options) {
  const int64_t batch = q_BTNH.size(0), queries = q_BTNH.size(1), heads = q_BTNH.size(2);
  const int64_t keys = k_BSKH.size(1), kv_heads = k_BSKH.size(2), group = heads / kv_heads;
  const auto acc = acc_type(q_BTNH.scalar_type());

  // The heads that share a key become rows of one product, so keys and values are not repeated.
  const Tensor q = q_BTNH.to(acc).transpose(1, 2).reshape({batch, kv_heads, group * queries, q_BTNH.size(3)});
  const Tensor k = k_BSKH.to(acc).permute({0, 2, 3, 1});
  Tensor scores = at::matmul(q, k).view({batch, heads, queries, keys}) * *options.scale;
  if (options.softcap != 0.0) scores = options.softcap * at::tanh(scores / options.softcap);
  if (options.bias.defined()) scores = scores + options.bias.to(acc);

  // The lowest number instead of -inf keeps rows without visible keys finite; clearing the weights makes them zeros.
  Tensor hidden;
  if (!options.mask.sees_everything(queries, keys)) {
    hidden = options.mask.to_bool(queries, keys, q.device()).logical_not();
    scores = scores.masked_fill(
        hidden, acc == at::kDouble ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest());
  }
  Tensor weights;
  if (options.sinks.defined()) {
    const Tensor sinks = options.sinks.to(acc).view({1, heads, 1, 1}).expand({batch, heads, queries, 1});
    weights = at::softmax(at::cat({scores, sinks}, -1), -1).narrow(-1, 0, keys);
  } else {
    weights = at::softmax(scores, -1);
  }
  if (hidden.defined()) weights = weights.masked_fill(hidden, 0);
  if (options.dropout_p > 0.0) {
    weights = dropout(weights, options.dropout_p, *options.dropout_key,
                      options.dropout_region ? &*options.dropout_region : nullptr);
  }

  const Tensor v = v_BSKV.to(acc).transpose(1, 2);
  const Tensor out = at::matmul(weights.reshape({batch, kv_heads, group * queries, keys}), v)
                         .view({batch, heads, queries, v_BSKV.size(3)})
                         .transpose(1, 2);
  return {out.to(q_BTNH.scalar_type()).contiguous(),
          options.return_weights ? weights.to(q_BTNH.scalar_type()) : Tensor()};
}

}  // namespace easydel::operations
