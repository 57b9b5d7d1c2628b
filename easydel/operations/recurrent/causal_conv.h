// A convolution of each channel with its own few last values.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::operations {

// Letters: B batch, T tokens, C channels, K taps. x [B, T, C]; weight [C, 1, K], the last tap for the token itself;
// bias [C] or undefined; before [B, K - 1, C]: what preceded x, zeros where undefined; runs [B, T] of documents, whose
// tokens do not see each other, or undefined. Summed in float32 or better; the result has x's type.
at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& before,
                       const at::Tensor& runs);

// [B, K - 1, C]: the `before` of the next call.
at::Tensor last_inputs(const at::Tensor& x, const at::Tensor& before, int64_t taps);

}  // namespace easydel::operations
