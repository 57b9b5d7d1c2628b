// Products with matrices in GGUF's blocks, without unpacking them first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel::operations {

enum class BlockFormat : uint8_t { kQ8_0, kQ4_K, kQ5_K, kQ6_K };

struct BlockShape {
  int64_t elements, bytes;  // of one block
};
BlockShape block_shape(BlockFormat format);

// With more vectors, decoding a matrix once and using a BLAS routine is faster.
int64_t most_block_vectors();

// x [..., in] of any float type on the CPU times the transposed rows: blocks uint8 [out, in / elements, bytes]. The
// result has x's type; sums are in float32. Not differentiable. One vector is rounded to 16 bits for Q4_K, where the
// CPU has integer products of vectors (AVX2): by at most max|x| / 65278 of each 256 elements.
at::Tensor block_product(const at::Tensor& x, const at::Tensor& blocks, BlockFormat format);

}  // namespace easydel::operations
