// Numbers in 8 bits with a scale for each block of 256, in bitsandbytes' layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel::optim {

inline constexpr int64_t kBlockSize = 256;

// [256] float32, ascending, from -1 (signed) or 0 to 1: dense near 0, as bitsandbytes' create_dynamic_map.
at::Tensor dynamic_code_book(bool is_signed, at::Device device);

// Blocks of consecutive elements; the last one may be short. `codes` [n] uint8, `absmax` [blocks] float32.
at::Tensor dequantize_blocks(const at::Tensor& codes, const at::Tensor& absmax, bool is_signed);  // [n] float32
// `values` [n] float32 to the nearest codes, of two the lower; both outputs are written.
void quantize_blocks(const at::Tensor& values, bool is_signed, const at::Tensor& codes, const at::Tensor& absmax);

// The same for elements of any blocks: `scales` [n] has the absmax of each element's block.
at::Tensor dequantize_scaled(const at::Tensor& codes, const at::Tensor& scales, bool is_signed);
at::Tensor quantize_scaled(const at::Tensor& values, const at::Tensor& scales, bool is_signed);  // [n] uint8

}  // namespace easydel::optim
