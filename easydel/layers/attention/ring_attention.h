// Ring attention over a sequence split over ranks: keys and values circulate, queries stay.
#pragma once

#include "easydel/operations/attention/attention.h"
#include "easydel/sharding/collectives/group.h"

namespace easydel {

// Member r of the group has tokens [r * T, (r + 1) * T) of the sequence; q, k and v [B, T, heads, size] are of these.
// options.mask (and the bias, and the region of options.dropout_region) are of the full sequence, the same for all
// members. Besides its own keys a rank has those of at most two members, and scores of one block. Every member calls
// this, with or without heads; the group must outlive backward. The gradient of sinks is of this member's queries: the
// sum over the members is the total.
at::Tensor ring_attention(const at::Tensor& q_BTNH, const at::Tensor& k_BTKH, const at::Tensor& v_BTKV,
                          const operations::AttentionOptions& options, const Group& group);

}  // namespace easydel
