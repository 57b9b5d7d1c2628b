// How the rows of pages hold keys and values: as elements of the queries' type, as int8 codes with a float32 scale
// behind them, or in 8-bit floats. Sixteen-bit types get eight features at a time, as a product reads them.
#pragma once

#include <cuda_fp8.h>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

template <class T>
struct PlainRows {
  using Element = T;
  using Raw = uint4;  // eight features, as they are stored
  static constexpr int64_t kAlignment = 16;
  __device__ static Raw load(const Element* from) { return load_pack(from); }
  __device__ static uint4 widen(const Raw& raw, float) { return raw; }
  __device__ static float at(const Element* row, int d) { return wide(row[d]); }
  __device__ static float scale(const Element*, int) { return 1.0f; }
};

struct CodeRows {
  using Element = int8_t;
  using Raw = uint2;
  static constexpr int64_t kAlignment = 4;
  __device__ static Raw load(const Element* from) {
    const auto* words = reinterpret_cast<const uint32_t*>(from);
    return {__ldg(words), __ldg(words + 1)};
  }
  __device__ static float at(const Element* row, int d) { return static_cast<float>(row[d]); }
  __device__ static float scale(const Element* row, int features) {
    return __ldg(reinterpret_cast<const float*>(row + features));
  }
  // Exact: the code is the last byte of the fraction of 2^23.
  __device__ static float code(uint32_t word, int i) {
    const uint32_t bits = __byte_perm(word ^ 0x80808080u, 0x4B000000u, 0x7440 + i);
    return __uint_as_float(bits) - 8388736.0f;
  }
};

template <class T>
struct CodeRowsOf : CodeRows {
  __device__ static uint4 widen(const Raw& raw, float scale) {
    const auto pair = [&](uint32_t word, int i) {
      return pack_pair<T>(code(word, i) * scale, code(word, i + 1) * scale);
    };
    return {pair(raw.x, 0), pair(raw.x, 2), pair(raw.y, 0), pair(raw.y, 2)};
  }
};

template <__nv_fp8_interpretation_t kKind>
struct Float8Rows {
  using Element = uint8_t;
  using Raw = uint2;
  static constexpr int64_t kAlignment = 8;
  __device__ static Raw load(const Element* from) { return __ldg(reinterpret_cast<const uint2*>(from)); }
  __device__ static float at(const Element* row, int d) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(row[d], kKind)));
  }
  __device__ static float scale(const Element*, int) { return 1.0f; }
};

template <class T, __nv_fp8_interpretation_t kKind>
struct Float8RowsOf : Float8Rows<kKind> {
  using Raw = uint2;
  __device__ static uint4 widen(const Raw& raw, float) {
    const auto pair = [](uint32_t word, int i) {
      const auto two = static_cast<__nv_fp8x2_storage_t>(i == 0 ? word & 0xffffu : word >> 16);
      const __half2 halves(__nv_cvt_fp8x2_to_halfraw2(two, kKind));  // exact
      if constexpr (std::is_same_v<T, __half>) {
        uint32_t bits;
        memcpy(&bits, &halves, sizeof(bits));
        return bits;
      } else {
        const float2 both = __half22float2(halves);
        return pack_pair<T>(both.x, both.y);
      }
    };
    return {pair(raw.x, 0), pair(raw.x, 2), pair(raw.y, 0), pair(raw.y, 2)};
  }
};

}  // namespace
}  // namespace easydel::operations::cuda_kernels
