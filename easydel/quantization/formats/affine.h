// Matrices of integer codes, (code - zero) * scale with a scale for each group of columns, which several formats have.
#pragma once

#include "easydel/quantization/formats/format.h"

namespace easydel::quantization {

// `count` numbers of `bits` each from rows of 32-bit words, the lowest bits first and across words: int32 [rows, words]
// to uint8 [rows, count].
at::Tensor unpack_words(const at::Tensor& words, int64_t bits, int64_t count);
at::Tensor pack_words(const at::Tensor& values, int64_t bits);  // the other way

struct AffineMatrix {
  int64_t out = 0, in = 0, bits = 4;
  int64_t group = 0;  // columns with one scale; `in` for a whole row
  DType scale_dtype = float16;
  std::function<at::Tensor()> codes;          // uint8 [out, in]
  std::function<at::Tensor()> scales;         // any float type, [out, groups]
  std::function<at::Tensor()> zeros = {};     // float32 [out, groups]; empty: the middle, 2^(bits - 1)
  std::function<at::Tensor()> group_of = {};  // int64 [in], where columns are not in the order of groups
};

// With a packed form where a method has the layout: int4 and uint4 for 4 bits, 8bit for rows of 8 bits.
DecodedWeight affine_weight(AffineMatrix matrix, std::string place);

// float32 [out, in]. group_of may be undefined.
at::Tensor affine_values(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& zeros, double middle,
                         int64_t group, const at::Tensor& group_of);

}  // namespace easydel::quantization
