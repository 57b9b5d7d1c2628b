// Matrices of 8-bit and 4-bit floats with scales, which several formats have.
#pragma once

#include "easydel/quantization/formats/format.h"
#include "easydel/quantization/methods/float_codes.h"

namespace easydel::quantization {

bool is_fp8(DType dtype);

// Values [rows, columns] float32, multiplied in place by scales [row blocks, column blocks] float32; the last block of
// each direction may be shorter. More dimensions before these two are the same of both.
void scale_blocks_(const at::Tensor& values, const at::Tensor& scales, int64_t block_rows, int64_t block_columns);

// FP8 codes with one scale, one for each row, or one for each block; `blocks` is the size of blocks
// in both directions, for scales that are not of rows. FormatError names `scale` when its shape does not fit.
DecodedWeight fp8_weight(const Files& files, const std::string& weight, const std::string& scale,
                         std::pair<int64_t, int64_t> blocks);

}  // namespace easydel::quantization
