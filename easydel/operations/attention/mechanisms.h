// The mechanisms that attention.cpp registers. Each is called with checked tensors, the scale set, q, k and v of one
// type.
#pragma once

#include "easydel/operations/attention/attention.h"

namespace easydel::operations {

AttentionOutput vanilla_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const AttentionOptions& options);
AttentionOutput sdpa_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const AttentionOptions& options);
AttentionOutput flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionOptions& options);
AttentionOutput cudnn_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionOptions& options);
AttentionOutput blockwise_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const AttentionOptions& options);

// Throws as attention() does for mismatched tensors. The mask and the bias are for `queries` and `keys`: more than q
// and k have, if these are parts of a sequence.
void check_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options,
                     int64_t queries, int64_t keys);

// Whether CUDA's flash kernel supports all options.
bool flash_can(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options);

}  // namespace easydel::operations
