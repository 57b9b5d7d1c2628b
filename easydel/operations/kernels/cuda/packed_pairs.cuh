// Codes as operands of tensor cores: pairs of a type of half precision, without their scale.
#pragma once

#include "easydel/operations/kernels/cuda/packed_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

__device__ inline uint32_t minus(__nv_bfloat162, uint32_t a, uint32_t b) {
  const __nv_bfloat162 d = __hsub2(reinterpret_cast<__nv_bfloat162&>(a), reinterpret_cast<__nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(d);
}
__device__ inline uint32_t minus(__half2, uint32_t a, uint32_t b) {
  const __half2 d = __hsub2(reinterpret_cast<__half2&>(a), reinterpret_cast<__half2&>(b));
  return reinterpret_cast<const uint32_t&>(d);
}

// Codes as pairs of T, without their scale. Bits that are set below the mantissa's last places of a power of two are an
// integer added to it, which is then subtracted.
template <class T>
struct Pairs {
  static constexpr bool kHalf = std::is_same_v<T, __half>;
  using Two = std::conditional_t<kHalf, __half2, __nv_bfloat162>;

  // Four int8 in order.
  __device__ static void from_int8(uint32_t codes, uint32_t (&pairs)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (kHalf) {  // 1024 + (code + 128)
        const uint32_t bits = __byte_perm(codes ^ 0x80808080u, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
        pairs[i] = minus(Two(), bits, 0x64806480u);
      } else {  // 128 + the lower seven bits, less 128, or less 256 of a negative one
        const uint32_t bits = __byte_perm(codes, 0x43434343u, i == 0 ? 0x4140 : 0x4342);
        pairs[i] = minus(Two(), bits & 0xff7fff7fu, bits & 0xff80ff80u);
      }
    }
  }

  // Four bytes: the four low nibbles in order, then the four high ones.
  __device__ static void from_int4(uint32_t codes, uint32_t (&pairs)[4]) {
    constexpr uint32_t kBase = kHalf ? 0x64006400u : 0x43004300u;  // 1024, 128
    constexpr uint32_t kMiddle = kBase + 0x00080008u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t bytes = __byte_perm(codes, 0, i == 0 ? 0x4140 : 0x4342);
      pairs[i] = minus(Two(), (bytes & 0x000f000fu) | kBase, kMiddle);
      pairs[2 + i] = minus(Two(), ((bytes >> 4) & 0x000f000fu) | kBase, kMiddle);
    }
  }
};

// What each byte of nf4 codes stands for, as a pair of T. Every lane has a copy of its own, in its own bank.
template <class T>
struct PairTable {
  uint32_t entries[256 * kWarp];
  __device__ void fill() {
    for (int byte = threadIdx.x; byte < 256; byte += blockDim.x) {
      const uint32_t pair = pack_pair<T>(kNf4Values[byte >> 4], kNf4Values[byte & 15]);
      for (int i = 0; i < kWarp; ++i) entries[byte * kWarp + (i + threadIdx.x) % kWarp] = pair;
    }
  }
  // Four bytes in order, of `lane`.
  __device__ void look_up(uint32_t codes, uint32_t lane, uint32_t (&pairs)[4]) const {
    const char* from = reinterpret_cast<const char*>(entries);
    constexpr uint32_t kByte = 0xff * kWarp * 4;
    const uint32_t at[4] = {codes << 7, codes >> 1, codes >> 9, codes >> 17};
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = *reinterpret_cast<const uint32_t*>(from + ((at[i] & kByte) | (lane * 4)));
  }
};
struct NoTable {
  __device__ void fill() {}
};

}  // namespace
}  // namespace easydel::operations::cuda_kernels
