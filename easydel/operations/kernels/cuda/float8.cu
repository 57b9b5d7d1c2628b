// Rounding to float8: rows, which are read once, and columns, which are written as rows for the products of backward.
#include <cuda_fp8.h>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/float8_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kMaxThreads = 1024, kMaxEach = 4;

struct Scaling {
  float largest;
  bool power_of_two;
  __device__ float operator()(float magnitude) const {
    const float scale = __fdiv_rn(largest, fmaxf(magnitude, 1e-12f));
    return power_of_two ? __uint_as_float(__float_as_uint(scale) & 0x7f800000u) : scale;
  }
};

template <bool kE5M2>
__device__ inline uint32_t round_four(float a, float b, float c, float d) {
  constexpr auto kKind = kE5M2 ? __NV_E5M2 : __NV_E4M3;
  const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kKind);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kKind);
  return low | high << 16;
}

// A pack's elements times `scale`, to consecutive bytes.
template <class T, bool kE5M2>
__device__ inline void store_rounded(uint8_t* to, const Pack<T>& x, float scale) {
  for (int i = 0; i < Pack<T>::kCount; i += 4)
    reinterpret_cast<uint32_t*>(to)[i / 4] =
        round_four<kE5M2>(x.get(i) * scale, x.get(i + 1) * scale, x.get(i + 2) * scale, x.get(i + 3) * scale);
}

__device__ inline float warp_max(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// A block takes every parts-th row; its threads keep the columns of which they find the largest.
template <class T, int kEach, bool kE5M2>
__global__ void __launch_bounds__(kMaxThreads) float8_rows_kernel(Float8Rows a) {
  using P = Pack<T>;
  __shared__ float maxima[2][kWarp];
  const int packs = static_cast<int>(a.width) / P::kCount, threads = static_cast<int>(blockDim.x);
  const Scaling scaling{a.format.e5m2 ? 57344.0f : 448.0f, a.format.power_of_two};
  float columns[kEach][P::kCount] = {};
  int turn = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += a.parts, turn ^= 1) {
    const T* x = static_cast<const T*>(a.x) + row * a.x_row;
    P mine[kEach];
    float largest = 0.0f;
    for (int j = 0; j < kEach; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * threads;
      mine[j] = i < packs ? P::at(x, i) : P{};
    }
    for (int j = 0; j < kEach; ++j) {
      for (int e = 0; e < P::kCount; ++e) {
        const float value = fabsf(mine[j].get(e));
        largest = fmaxf(largest, value);
        columns[j][e] = fmaxf(columns[j][e], value);
      }
    }
    // Two rooms by turns: whoever writes to one again has met all others after they read it.
    largest = warp_max(largest);
    if (threadIdx.x % kWarp == 0) maxima[turn][threadIdx.x / kWarp] = largest;
    __syncthreads();
    const unsigned lane = threadIdx.x % kWarp, warps = (blockDim.x + kWarp - 1) / kWarp;
    largest = warp_max(lane < warps ? maxima[turn][lane] : 0.0f);
    const float scale = scaling(largest);
    if (threadIdx.x == 0) a.inverse[row] = 1.0f / scale;
    for (int j = 0; j < kEach; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * threads;
      if (i < packs) store_rounded<T, kE5M2>(a.out + row * a.width + i * P::kCount, mine[j], scale);
    }
  }
  if (!a.column_parts) return;
  for (int j = 0; j < kEach; ++j) {
    const int i = static_cast<int>(threadIdx.x) + j * threads;
    if (i >= packs) break;
    for (int e = 0; e < P::kCount; ++e) a.column_parts[blockIdx.x * a.width + i * P::kCount + e] = columns[j][e];
  }
}

constexpr int kFlatThreads = 256;

template <class T>
__global__ void __launch_bounds__(kFlatThreads) float8_largest_kernel(Float8Largest a) {
  using P = Pack<T>;
  __shared__ float maxima[kWarp];
  const int64_t packs = a.width / P::kCount, count = a.rows * packs;
  float largest = 0.0f;
  const int64_t step = int64_t{gridDim.x} * kFlatThreads;
  for (int64_t i = int64_t{blockIdx.x} * kFlatThreads + threadIdx.x; i < count; i += step) {
    const P x = P::at(static_cast<const T*>(a.x) + i / packs * a.x_row, i % packs);
    for (int e = 0; e < P::kCount; ++e) largest = fmaxf(largest, fabsf(x.get(e)));
  }
  largest = warp_max(largest);
  if (threadIdx.x % kWarp == 0) maxima[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  largest = warp_max(threadIdx.x < kFlatThreads / kWarp ? maxima[threadIdx.x] : 0.0f);
  // Floats from zero on are ordered as their bits.
  if (threadIdx.x == 0) atomicMax(a.largest, __float_as_uint(largest));
}

template <class T, bool kE5M2>
__global__ void __launch_bounds__(kFlatThreads) float8_cast_kernel(Float8Cast a) {
  using P = Pack<T>;
  const int64_t packs = a.width / P::kCount, i = int64_t{blockIdx.x} * kFlatThreads + threadIdx.x;
  const float scale = Scaling{a.format.e5m2 ? 57344.0f : 448.0f, a.format.power_of_two}(a.largest[0]);
  if (i == 0) a.inverse[0] = 1.0f / scale;
  if (i >= a.rows * packs) return;
  const P x = P::at(static_cast<const T*>(a.x) + i / packs * a.x_row, i % packs);
  store_rounded<T, kE5M2>(a.out + i * P::kCount, x, scale);
}

constexpr int kTileRows = 128, kTilePacks = 8;

// A tile of 128 rows by eight packs. Each thread rounds four rows of one pack, and a warp writes 128 bytes of a column.
template <class T, bool kE5M2>
__global__ void __launch_bounds__(kFlatThreads) float8_transpose_kernel(Float8Cast a) {
  using P = Pack<T>;
  constexpr int kWords = kTileRows / 4, kColumns = kTilePacks * P::kCount;
  __shared__ uint32_t tile[kColumns][kWords + 1];
  const Scaling scaling{a.format.e5m2 ? 57344.0f : 448.0f, a.format.power_of_two};
  const int64_t first_column = int64_t{blockIdx.x} * kColumns, first_row = int64_t{blockIdx.y} * kTileRows;
  const int pack = static_cast<int>(threadIdx.x) % kTilePacks, word = static_cast<int>(threadIdx.x) / kTilePacks;
  const int64_t column = first_column + pack * P::kCount, row = first_row + 4 * word;
  if (column < a.width) {
    P four[4];
    for (int r = 0; r < 4; ++r)
      four[r] = row + r < a.rows ? P::at(static_cast<const T*>(a.x) + (row + r) * a.x_row + column, 0) : P{};
    for (int e = 0; e < P::kCount; ++e) {
      const float scale = scaling(a.largest[a.largest_step * (column + e)]);
      if (row == 0 && (a.largest_step != 0 || column + e == 0)) a.inverse[a.largest_step * (column + e)] = 1.0f / scale;
      tile[pack * P::kCount + e][word] = round_four<kE5M2>(four[0].get(e) * scale, four[1].get(e) * scale,
                                                           four[2].get(e) * scale, four[3].get(e) * scale);
    }
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t at = first_row + 4 * lane;
  if (at >= a.out_row) return;
  for (int c = static_cast<int>(threadIdx.x) / kWarp; c < kColumns; c += kFlatThreads / kWarp) {
    if (first_column + c >= a.width) return;
    *reinterpret_cast<uint32_t*>(a.out + (first_column + c) * a.out_row + at) = tile[c][lane];
  }
}

int pack_count(Element type) { return type == Element::Float32 ? 4 : 8; }
int threads_for(int64_t packs) {
  return static_cast<int>(std::min<int64_t>(kMaxThreads, (packs + kWarp - 1) / kWarp * kWarp));
}

template <class F>
void with_format(Element type, const Float8Format& format, const F& f) {
  with_type(type, [&](auto t) {
    if (format.e5m2) {
      f(t, std::true_type{});
    } else {
      f(t, std::false_type{});
    }
  });
}

}  // namespace

bool can_cast_float8_rows(Element type, int64_t width) {
  return width > 0 && width % pack_count(type) == 0 && width / pack_count(type) <= kMaxThreads * kMaxEach;
}

int float8_row_parts(Element type, int64_t rows, int64_t width) {
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int64_t blocks = std::max(1, 1024 / threads_for(width / pack_count(type))) * int64_t{processors};
  return static_cast<int>(std::clamp<int64_t>(rows, 1, blocks));
}

void float8_rows(Element type, const Float8Rows& args, Stream stream) {
  if (args.rows == 0 || args.width == 0) return;
  const int64_t packs = args.width / pack_count(type);
  const int threads = threads_for(packs), each = static_cast<int>((packs + threads - 1) / threads);
  const auto blocks = static_cast<unsigned>(args.parts);
  with_format(type, args.format, [&](auto t, auto e5m2) {
    using T = decltype(t);
    constexpr bool kE5M2 = decltype(e5m2)::value;
    if (each == 1) {
      float8_rows_kernel<T, 1, kE5M2><<<blocks, threads, 0, stream>>>(args);
    } else if (each == 2) {
      float8_rows_kernel<T, 2, kE5M2><<<blocks, threads, 0, stream>>>(args);
    } else {
      float8_rows_kernel<T, kMaxEach, kE5M2><<<blocks, threads, 0, stream>>>(args);
    }
  });
}

void float8_largest(Element type, const Float8Largest& args, Stream stream) {
  const int64_t packs = args.rows * (args.width / pack_count(type));
  if (packs == 0) return;
  const unsigned blocks = std::min(blocks_for(packs, kFlatThreads), 2048u);
  with_type(type, [&](auto t) { float8_largest_kernel<decltype(t)><<<blocks, kFlatThreads, 0, stream>>>(args); });
}

void float8_cast(Element type, const Float8Cast& args, Stream stream) {
  if (args.rows == 0 || args.width == 0) return;
  const int64_t packs = args.width / pack_count(type);
  with_format(type, args.format, [&](auto t, auto e5m2) {
    using T = decltype(t);
    constexpr bool kE5M2 = decltype(e5m2)::value;
    if (args.transposed) {
      const dim3 grid(blocks_for(packs, kTilePacks), blocks_for(args.out_row, kTileRows));
      float8_transpose_kernel<T, kE5M2><<<grid, kFlatThreads, 0, stream>>>(args);
    } else {
      float8_cast_kernel<T, kE5M2><<<blocks_for(args.rows * packs, kFlatThreads), kFlatThreads, 0, stream>>>(args);
    }
  });
}

}  // namespace easydel::operations::cuda_kernels
