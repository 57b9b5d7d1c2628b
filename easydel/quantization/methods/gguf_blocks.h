// Weights that GGUF files bring as blocks of codes: kept as they are, byte for byte.
#pragma once

#include "easydel/io/gguf/ggml_type.h"
#include "easydel/quantization/method.h"

namespace easydel::quantization {

// Q8_0, Q4_K, Q5_K or Q6_K by the bytes of its blocks and how many columns each has; null: none of these.
std::shared_ptr<const Method> find_gguf_blocks(int64_t block_elements, int64_t block_bytes);

// Blocks [..., bytes] on any device as float32 [..., elements]: the same bits as io's gguf_dequantize.
at::Tensor decode_blocks(const GgmlType& type, const at::Tensor& blocks);

}  // namespace easydel::quantization
