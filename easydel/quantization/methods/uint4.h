// Codes from 0 to 15 with a zero point for each group of columns.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::quantization {

struct Uint4Codes {
  at::Tensor codes;          // uint8 [out, in]
  at::Tensor scales, zeros;  // float16 and uint8 [out, groups]
};
Uint4Codes uint4_codes(const at::Tensor& matrix, int64_t group);  // float32 [out, in]
at::Tensor uint4_values(const Uint4Codes& codes, int64_t group);  // float32 [out, in]

}  // namespace easydel::quantization
