// Values of 4-bit floats (E2M1), alone and in blocks with a power of two.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::quantization {

// Bytes [..., n] of two 4-bit floats each, the first in the low bits, to float32 [..., 2 n].
at::Tensor fp4_values(const at::Tensor& bytes);
// Blocks of 32 with a power of two: bytes [..., in / 2] and exponents uint8 [..., in / 32] to float32 [..., in].
at::Tensor mxfp4_values(const at::Tensor& bytes, const at::Tensor& exponents);

}  // namespace easydel::quantization
