// Shared by GPU kernels: elements and their packs, warp reductions, activations, and kernel launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "easydel/operations/kernels/cuda/cuda_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kWarp = 32;

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(__half x) { return __half2float(x); }
__device__ inline float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ inline T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

__device__ inline float warp_sum(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Over the block; `sums` has room for a warp.
__device__ inline float block_sum(float value, float* sums) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_sum(threadIdx.x % kWarp < blockDim.x / kWarp ? sums[threadIdx.x % kWarp] : 0.0f);
}

// Sixteen bytes at a time.
template <class T>
struct Pack {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  uint4 bits;
  __device__ float get(int i) const { return wide(reinterpret_cast<const T*>(&bits)[i]); }
  __device__ void set(int i, float value) { reinterpret_cast<T*>(&bits)[i] = narrow<T>(value); }
  __device__ static Pack at(const void* from, int64_t index) { return {static_cast<const uint4*>(from)[index]}; }
};

constexpr float kLog2E = 1.4426950408889634f;
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// How a product of q and k becomes a score, in powers of two.
struct ToScore {
  float scale, cap;
  __device__ ToScore(float times, float softcap) {
    cap = softcap > 0 ? softcap * kLog2E : 0.0f;
    scale = softcap > 0 ? times / softcap : times * kLog2E;
  }
  __device__ float operator()(float x) const { return cap > 0 ? cap * tanhf(x * scale) : x * scale; }
};

// What is read once: past the first cache.
__device__ inline uint4 load_pack(const void* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

// d += a b, a [16, 16], b [16, 8].
template <class T>
__device__ inline void multiply_tile(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                     uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

template <class T>
__device__ inline uint32_t pack_pair(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof(bits));
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, sizeof(bits));
  }
  return bits;
}

__device__ inline uint32_t word(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

// Accurate to a few ulp; handling denormals would take twice the instructions.
__device__ inline float fast_sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

struct Activated {
  float value, slope;
};
__device__ inline Activated activate(float g, bool gelu) {
  if (!gelu) {
    const float sigmoid = fast_sigmoid(g);
    return {g * sigmoid, sigmoid * (1.0f + g * (1.0f - sigmoid))};
  }
  constexpr float kBeta = 0.7978845608028654f, kKappa = 0.044715f;
  const float t = tanhf(kBeta * (g + kKappa * g * g * g));
  return {0.5f * g * (1.0f + t),
          0.5f * (1.0f + t) + 0.5f * g * (1.0f - t * t) * kBeta * (1.0f + 3.0f * kKappa * g * g)};
}

template <class F>
void with_type(Element type, const F& f) {
  switch (type) {
    case Element::Float32: return f(float{});
    case Element::Float16: return f(__half{});
    case Element::BFloat16: return f(__nv_bfloat16{});
  }
}

unsigned blocks_for(int64_t items, int threads) { return static_cast<unsigned>((items + threads - 1) / threads); }

}  // namespace
}  // namespace easydel::operations::cuda_kernels
