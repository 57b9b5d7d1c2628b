// Shared by the GPU kernels of packed weights: what codes and scales stand for.
#pragma once

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/packed_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kRunWeights = 32;  // four bits: of sixteen bytes, which have one scale

__constant__ float kNf4Values[16] = {-1.0f,
                                     -0.6961928009986877f,
                                     -0.5250730514526367f,
                                     -0.39491748809814453f,
                                     -0.28444138169288635f,
                                     -0.18477343022823334f,
                                     -0.09105003625154495f,
                                     0.0f,
                                     0.07958029955625534f,
                                     0.16093020141124725f,
                                     0.24611230194568634f,
                                     0.33791524171829224f,
                                     0.44070982933044434f,
                                     0.5626170039176941f,
                                     0.7229568362236023f,
                                     1.0f};

__host__ __device__ constexpr int weights_per_byte(CodeFormat format) { return format == CodeFormat::Int8 ? 1 : 2; }

__device__ inline float scale_at(const PackedRows& w, const PackedLayout& layout, int64_t row, int64_t column) {
  if (layout.codes == CodeFormat::Int8) return static_cast<const float*>(w.scales)[row] * (1.0f / 127.0f);
  // A division would take longer than all else here.
  const int64_t group = layout.group_shift >= 0 ? column >> layout.group_shift : column / layout.group;
  const int64_t i = row * layout.groups + group;
  switch (layout.scales) {
    case ScaleFormat::Float32: return __ldg(static_cast<const float*>(w.scales) + i);
    case ScaleFormat::Float16: return wide(static_cast<const __half*>(w.scales)[i]);
    default: {
      const int64_t block = layout.outer_shift >= 0 ? i >> layout.outer_shift : i / layout.outer_block;
      return w.map[static_cast<const uint8_t*>(w.scales)[i]] * w.outer[block] + *w.offset;
    }
  }
}

__device__ inline void load_nf4(float* values) {
  if (threadIdx.x < 16) values[threadIdx.x] = kNf4Values[threadIdx.x];
  __syncthreads();
}

template <class F>
void with_format(CodeFormat format, const F& f) {
  switch (format) {
    case CodeFormat::Int8: return f(std::integral_constant<CodeFormat, CodeFormat::Int8>());
    case CodeFormat::Nf4: return f(std::integral_constant<CodeFormat, CodeFormat::Nf4>());
    case CodeFormat::Int4: return f(std::integral_constant<CodeFormat, CodeFormat::Int4>());
    case CodeFormat::Dense: break;
  }
}

int processors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

}  // namespace
}  // namespace easydel::operations::cuda_kernels
