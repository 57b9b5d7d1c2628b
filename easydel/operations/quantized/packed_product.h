// Products with packed weights, computed from their codes; packing and unpacking of four-bit weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace easydel::operations {

enum class PackedFormat : uint8_t {
  kInt8,  // codes int8 [out, in]; scales float32 [out]: a row's largest magnitude, the value of the code 127
  kNf4,   // codes uint8 [out, in / 2], the high nibble first; scales [out, in / group] times a value of NormalFloat
  kInt4,  // codes uint8 [out, in / 2] as pack_int4 writes them; scales [out, in / group] times (code - 8)
};

// A stored matrix [out, in]. The length of four-bit groups is a multiple of 32 and divides a row.
struct PackedCodes {
  PackedFormat format = PackedFormat::kInt8;
  at::Tensor codes;
  at::Tensor scales;  // float32; four bits: also float16, or uint8 with the three below (double quantization)
  // A scale is then scale_map[code] * outer_scales[i / outer_block] + scale_offset, with i counted over all rows.
  at::Tensor scale_map;     // float32 [256]
  at::Tensor outer_scales;  // float32
  int64_t outer_block = 256;
  at::Tensor scale_offset;  // float32 [1]

  int64_t out() const { return codes.size(0); }
  int64_t in() const { return codes.size(1) * (format == PackedFormat::kInt8 ? 1 : 2); }
  int64_t group() const;  // weights that share a scale
  int64_t bytes() const;  // of all tensors
  // ShapeError unless the tensors are dense, on one device, and as described above.
  void check() const;
};

// The format of x in the product.
enum class Activations : uint8_t {
  kFloat,         // unchanged, in float32
  kInt8PerToken,  // rounded to int8, with one scale for each vector: max|x| / 127
  kInt8PerGroup,  // with one scale for each group of the weight (int8 weights: for each 64, if that divides a row)
};

// How x is read where no gradient is wanted: int4 on the CPU rounds it to int8 per group, as llama.cpp does for Q4_0.
Activations activations_without_gradient(const PackedCodes& weight);

struct PackedMap {
  const PackedCodes* weight;
  at::Tensor bias = {};  // [out] or undefined
};

// Whether products with x can be computed from the codes: both are on the CPU or on a GPU that has kernels for them.
bool can_multiply_packed(const at::Tensor& x, const PackedCodes& weight);

// x [..., in], float32, bfloat16 or float16; the result has its type. Not differentiable. Activations other than kFloat
// are for kInt8 and kInt4, on the CPU.
at::Tensor packed_product(const at::Tensor& x, const PackedCodes& weight, const at::Tensor& bias = {},
                          Activations activations = Activations::kFloat);

// Several maps of one x, as one loop (on a GPU: one launch) over all their rows if x is only a few vectors.
std::vector<at::Tensor> packed_products(const at::Tensor& x, const std::vector<PackedMap>& maps,
                                        Activations activations = Activations::kFloat);

// The dequantized weights, [out, in] or rows [begin, end) of it, in float32, bfloat16 or float16.
at::Tensor unpack(const PackedCodes& weight, at::ScalarType type = at::kFloat);
at::Tensor unpack_rows(const PackedCodes& weight, int64_t begin, int64_t end, at::ScalarType type = at::kFloat);

// Q4_0 of GGUF, for any group: the scale is the group's value of largest magnitude / -8, in float16, and a code the
// nearest of 0 to 15. In each 16 bytes the low nibbles are the first half of 32 weights, the high ones the second.
// A weight differs from its code's by at most 1/2 of the scale, and by 1 where it lies at the far end (7 to 8 scales),
// before the scale itself is rounded to float16.
PackedCodes pack_int4(const at::Tensor& weight, int64_t group);

// The 16 values of nf4 that bitsandbytes uses.
const float* nf4_values();

}  // namespace easydel::operations
