// How the kernels see packed weights. For builds that have such kernels.
#pragma once

#include <algorithm>
#include <bit>

#include "easydel/operations/kernels/cuda/packed_kernels.h"
#include "easydel/operations/quantized/packed_product.h"

namespace easydel::operations::cuda_kernels {

inline PackedLayout layout_of(const PackedCodes& weight) {
  const at::ScalarType scales = weight.scales.scalar_type();
  const auto log2 = [](int64_t n) {
    const auto bits = static_cast<uint64_t>(n);
    return std::has_single_bit(bits) ? std::countr_zero(bits) : -1;
  };
  return {weight.format == PackedFormat::kInt8  ? CodeFormat::Int8
          : weight.format == PackedFormat::kNf4 ? CodeFormat::Nf4
                                                : CodeFormat::Int4,
          scales == at::kFloat  ? ScaleFormat::Float32
          : scales == at::kHalf ? ScaleFormat::Float16
                                : ScaleFormat::Nested,
          weight.in(),
          weight.group(),
          weight.outer_block,
          static_cast<int32_t>(weight.in() / std::max<int64_t>(1, weight.group())),
          log2(weight.group()),
          log2(weight.outer_block)};
}

inline bool is_alike(const PackedLayout& a, const PackedLayout& b) {
  return a.codes == b.codes && a.scales == b.scales && a.width == b.width && a.group == b.group &&
         a.outer_block == b.outer_block;
}

inline PackedRows packed_rows(const PackedCodes& weight) {
  const auto floats = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; };
  return {weight.codes.const_data_ptr(), weight.scales.const_data_ptr(), floats(weight.scale_map),
          floats(weight.outer_scales),   floats(weight.scale_offset),    weight.out()};
}

}  // namespace easydel::operations::cuda_kernels
