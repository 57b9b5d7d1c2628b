// Attention on a mesh, where a rank has some of the heads and some of the sequence.
#pragma once

#include "easydel/layers/forward_context.h"
#include "easydel/sharding/mesh/dim.h"
#include "easydel/sharding/parallel.h"

namespace easydel {

struct AttentionPlace {
  const Parallel& parallel;
  const BatchPart& part;
  HeadPart heads;  // of the given q, k and v
};

// q, k and v of this rank's tokens and heads. The mask in `options` is of the full sequence and all heads. If the
// sequence is split, "ring" circulates keys and values; every other mechanism gets full sequences of fewer heads.
operations::AttentionOutput parallel_attention(const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                               const at::Tensor& v_BTKV, const operations::AttentionOptions& options,
                                               const AttentionPlace& place);

// q, k and v of all new tokens and this rank's heads, with the cache of the earlier tokens.
operations::AttentionOutput cached_attention(Cache& cache, int64_t layer, const at::Tensor& q_BTNH,
                                             const at::Tensor& k_BTKH, const at::Tensor& v_BTKV,
                                             const operations::AttentionOptions& options, const HeadPart& heads);

}  // namespace easydel
