// Shared by the products with few vectors: vectors in shared memory, and rows of weights times them.
#pragma once

#include "easydel/operations/kernels/cuda/launch_after.cuh"
#include "easydel/operations/kernels/cuda/packed_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kRowWarps = 8, kRowThreads = kRowWarps * kWarp;

template <class T>
__device__ inline float rounded(float x) {
  return wide(narrow<T>(x));
}

// The sum of squares of a row, by `step` threads of which this is number `first`: this thread's part of it.
template <class T>
__device__ inline float squares_of(const void* x, int64_t row, int packs, int first, int step) {
  float squares = 0;
  for (int i = first; i < packs; i += step) {
    const Pack<T> from = Pack<T>::at(x, row * packs + i);
#pragma unroll
    for (int e = 0; e < Pack<T>::kCount; ++e) squares += from.get(e) * from.get(e);
  }
  return squares;
}

// Pack i of a row, normalized if that is asked for, where the sum of its squares is known.
template <class T>
__device__ inline Pack<T> normalized_pack(const void* x, const RowNorm& norm, int64_t row, int packs, int i,
                                          float squares) {
  Pack<T> value = Pack<T>::at(x, row * packs + i);
  if (!norm.weight) return value;
  const float rstd = rsqrtf(squares / static_cast<float>(packs * Pack<T>::kCount) + norm.eps);
  const Pack<T> weight = Pack<T>::at(norm.weight, i);
#pragma unroll
  for (int e = 0; e < Pack<T>::kCount; ++e) {
    const float normalized = value.get(e) * rstd;
    value.set(e, (norm.cast_first ? rounded<T>(normalized) : normalized) * (weight.get(e) + norm.offset));
  }
  return value;
}

// The sums of squares of `vectors` rows, one by the block or several by a warp each; `sums` has room for a warp.
template <class T, int kVectors>
__device__ inline void find_squares(const void* x, int64_t first, int vectors, int packs, float* sums) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (kVectors == 1) {
    const float all = block_sum(squares_of<T>(x, first, packs, threadIdx.x, kRowThreads), sums);
    __syncthreads();
    if (threadIdx.x == 0) sums[0] = all;
  } else if (warp < vectors) {
    const float all = warp_sum(squares_of<T>(x, first + warp, packs, lane, kWarp));
    if (lane == 0) sums[warp] = all;
  }
  __syncthreads();
}

// Sixteen bytes of a row of weights.
template <class T, CodeFormat kFormat>
__host__ __device__ constexpr int piece_weights() {
  return kFormat == CodeFormat::Dense ? 16 / static_cast<int>(sizeof(T)) : 16 * weights_per_byte(kFormat);
}

// A vector as a block keeps it. Dense: as it is. Codes: floats, four at a time, so that lanes with neighbouring pieces
// read neighbouring sixteen bytes; chunk j of a piece has its columns 4 j to 4 j + 3.
template <class T, CodeFormat kFormat>
struct HeldVector {
  static constexpr bool kDense = kFormat == CodeFormat::Dense;
  static constexpr int kCount = piece_weights<T, kFormat>();
  __host__ __device__ static constexpr int64_t bytes(int64_t width) {
    return width * (kDense ? static_cast<int>(sizeof(T)) : 4);
  }

  uint4* at;
  int pieces;

  // Elements [pack * Pack<T>::kCount, ...), of which an int4 code in a higher place of its word counts for more.
  __device__ void put(int pack, const Pack<T>& x) const {
    if constexpr (kDense) {
      at[pack] = x.bits;
    } else {
#pragma unroll
      for (int e = 0; e < Pack<T>::kCount; ++e) {
        const int column = pack * Pack<T>::kCount + e, piece = column / kCount, within = column % kCount;
        float value = x.get(e);
        if constexpr (kFormat == CodeFormat::Int4)
          value *= (within & 1 ? 0x1p-8f : 1.0f) * (within >= 16 ? 0x1p-4f : 1.0f);
        reinterpret_cast<float*>(at)[(within / 4 * pieces + piece) * 4 + within % 4] = value;
      }
    }
  }
  __device__ float4 chunk(int piece, int j) const { return reinterpret_cast<const float4*>(at)[j * pieces + piece]; }
};

// A float whose last mantissa bits are `bits`, less `zero`, which is exact.
__device__ inline float from_bits(uint32_t bits, float zero) { return __uint_as_float(bits | 0x4b000000u) - zero; }

// The codes of two rows times a held vector, without scales.
template <class T, CodeFormat kFormat>
__device__ inline void add_codes(const uint4& first, const uint4& second, const HeldVector<T, kFormat>& x, int piece,
                                 const float* nf4, float (&sums)[2]) {
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const uint32_t words[2] = {word(first, w), word(second, w)};
    if constexpr (kFormat == CodeFormat::Int8) {
      const float4 at = x.chunk(piece, w);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t codes = words[r] ^ 0x80808080u;
        sums[r] += from_bits(codes & 0xff, 8388736.0f) * at.x;
        sums[r] += from_bits(__byte_perm(codes, 0, 0x4441), 8388736.0f) * at.y;
        sums[r] += from_bits(__byte_perm(codes, 0, 0x4442), 8388736.0f) * at.z;
        sums[r] += from_bits(codes >> 24, 8388736.0f) * at.w;
      }
    } else if constexpr (kFormat == CodeFormat::Int4) {
      const float4 low = x.chunk(piece, w), high = x.chunk(piece, 4 + w);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t codes = half ? words[r] >> 16 : words[r];
          sums[r] += from_bits(codes & 0xf, 8388608.0f + 8) * (half ? low.z : low.x);
          sums[r] += from_bits(codes & 0xf0, 8388608.0f + 128) * (half ? high.z : high.x);
          sums[r] += from_bits(codes & 0xf00, 8388608.0f + 2048) * (half ? low.w : low.y);
          sums[r] += from_bits(codes & 0xf000, 8388608.0f + 32768) * (half ? high.w : high.y);
        }
      }
    } else {
      const float4 one = x.chunk(piece, 2 * w), two = x.chunk(piece, 2 * w + 1);
      const float at[8] = {one.x, one.y, one.z, one.w, two.x, two.y, two.z, two.w};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[r] += nf4[(words[r] >> (i / 2 * 8 + (i % 2 ? 0 : 4))) & 15] * at[i];
      }
    }
  }
}

template <class T>
__device__ inline void add_dense(const uint4& first, const uint4& second, const Pack<T>& x, float (&sums)[2]) {
  const Pack<T> a{first}, b{second};
#pragma unroll
  for (int e = 0; e < Pack<T>::kCount; ++e) {
    sums[0] += a.get(e) * x.get(e);
    sums[1] += b.get(e) * x.get(e);
  }
}

constexpr int64_t kMaxHeldBytes = 96 * 1024;
template <class Kernel>
void allow_shared(Kernel kernel, int64_t bytes, int64_t own = 8 * 1024) {  // own: what the kernel has besides, at most
  if (bytes + own > 48 * 1024)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

// How many warps share a pair of rows: whatever needs the fewest steps, of `ahead` pieces for each lane.
int warps_for_row(int64_t pairs, int64_t pieces, int64_t blocks, int ahead) {
  const auto steps = [&](int64_t warps) {
    const int64_t rounds = (pairs * warps + blocks * kRowWarps - 1) / (blocks * kRowWarps);
    return rounds * blocks_for((pieces + warps - 1) / warps, kWarp * ahead);
  };
  int best = 1;
  for (int warps = 2; warps <= kRowWarps; warps *= 2) {
    if (steps(warps) < steps(best)) best = warps;
  }
  return best;
}

}  // namespace
}  // namespace easydel::operations::cuda_kernels
