// Single query tokens over keys and values in blocks of memory: the rows of a dense cache, or pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "easydel/operations/attention/attention.h"

// Letters: P blocks, K key/value heads, C tokens of a block, H head size of q and k, V head size of v, Q queries, N
// query heads.
namespace easydel::operations {

// The factor of the scores: that of the options, or 1 / sqrt(head size).
double score_scale(const AttentionOptions& options, int64_t head_size);

struct KeyBlocks {
  at::Tensor k;  // [P, K, C, H]; int8: rows of codes
  at::Tensor v;  // [P, K, C, V]
};

// The keys that one query attends to: slots [begin, end) of a sequence. Slot s is in block blocks[s / C] or, if there
// is only one block, in that block as a ring buffer; always at s % C.
struct KeySpan {
  int64_t begin = 0, end = 0;
  const int32_t* blocks = nullptr;  // null: the ring
  int64_t ring = 0;                 // its block
};

struct CachedAttention {
  at::Tensor out;  // [Q, N, V] in q's type, or in that of lse
  at::Tensor lse;  // [Q, N] float32 or better; -inf for a query without visible keys
};

// q [Q, N, H], one span for each query. `wide_out`: the result in float32 or better, for further accumulation. On the
// CPU; no gradients.
CachedAttention attend_to_blocks(const at::Tensor& q_QNH, const KeyBlocks& keys, const std::vector<KeySpan>& spans,
                                 double scale, double softcap, bool wide_out);
bool can_attend_to_blocks(const at::Tensor& q_QNH, const KeyBlocks& keys);

}  // namespace easydel::operations
