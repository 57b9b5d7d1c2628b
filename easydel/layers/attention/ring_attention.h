// Attention over a sequence that is split over ranks: keys and values go round, queries stay.
#pragma once

#include "easydel/operations/attention/attention.h"
#include "easydel/sharding/collectives/group.h"

namespace easydel {

// Member r of the group has tokens [r * T, (r + 1) * T) of the whole; q, k and v [B, T, heads, size] are of these. The
// rules of options.mask (and the bias, and the region of options.dropout_region) are those of the whole sequence, the
// same for all members. Beside its own keys no rank ever holds those of more than two members, nor scores of more than
// a block. Every member calls this, with or without heads; the group must outlive backward. The gradient of sinks is of
// this member's queries: the sum over the members is the whole.
at::Tensor ring_attention(const at::Tensor& q_BTNH, const at::Tensor& k_BTKH, const at::Tensor& v_BTKV,
                          const operations::AttentionOptions& options, const Group& group);

}  // namespace easydel
