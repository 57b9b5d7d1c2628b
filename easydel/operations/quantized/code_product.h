// Products with the codes of published files (GPTQ and AWQ with zero points, MXFP4, FP8), without dense copies of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel::operations {

enum class CodeFormat : uint8_t {
  kUint4,  // codes uint8 [out, in / 2] as int4's; scales float16 and zeros uint8 [out, groups]: (code - zero) * scale
  kMxfp4,  // codes uint8 [out, in / 2], the first of two columns in the low bits; scales uint8 [out, groups], exponents
  kFp8,    // codes uint8 [out, in], the bits of float8_e4m3fn; scales float32 [out, groups], or [out]
};

struct FileCodes {
  CodeFormat format = CodeFormat::kUint4;
  at::Tensor codes, scales;
  at::Tensor zeros = {};

  int64_t out() const { return codes.size(0); }
  int64_t in() const { return codes.size(1) * (format == CodeFormat::kFp8 ? 1 : 2); }
  int64_t groups() const { return scales.dim() == 1 ? 1 : scales.size(1); }
};

// Whether kernels read them: on the CPU, in groups that 32 divides, with few vectors. Of many, a matrix that is
// dequantized once and a library's product are faster.
bool can_multiply_codes(const at::Tensor& x, const FileCodes& weight);

// Rows [begin, end) as float32, each weight rounded once; undefined if no kernel reads them.
at::Tensor unpack_codes(const FileCodes& weight, int64_t begin, int64_t end);

// x [..., in] of any float type times the transposed rows. The result has x's type; sums are in float32. Not
// differentiable.
at::Tensor code_product(const at::Tensor& x, const FileCodes& weight);

}  // namespace easydel::operations
