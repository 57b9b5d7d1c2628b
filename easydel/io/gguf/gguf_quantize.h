// Floats to GGUF's blocks. Q8_0 and Q4_0 are ggml's bit for bit; of the K types the scales are searched for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "easydel/io/gguf/ggml_type.h"

namespace easydel {

bool can_quantize(const GgmlType& type);  // Q8_0, Q4_0, Q4_K, Q6_K
// Reads type.block_elements floats for each block and writes type.block_bytes bytes.
void gguf_quantize(const GgmlType& type, const float* values, int64_t count, std::byte* blocks);

}  // namespace easydel
