// Dequantizes GGUF's blocks to floats, bit for bit what ggml computes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "easydel/io/gguf/ggml_type.h"

namespace easydel {

// Writes type.block_elements floats for each block. The type must be readable and not plain; blocks may be unaligned.
void gguf_dequantize(const GgmlType& type, const std::byte* blocks, int64_t count, float* out);

}  // namespace easydel
