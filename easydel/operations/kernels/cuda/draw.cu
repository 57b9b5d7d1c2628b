// Numbers that are drawn on a GPU: core/random.h's normal ones, where element i is number i % 4 of Philox block i / 4,
// and the tokens of rows of scores.
#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/paged/paged_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

struct Block {
  uint32_t numbers[4];
};
__device__ inline Block philox(uint64_t index, uint64_t key) {
  uint32_t c[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c[0]), low0 = 0xD2511F53u * c[0];
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c[2]), low1 = 0xCD9E8D57u * c[2];
    c[0] = high1 ^ c[1] ^ k0, c[1] = low1, c[2] = high0 ^ c[3] ^ k1, c[3] = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

__device__ inline float open_unit(uint32_t bits) {
  return __fmul_rn(__fadd_rn(static_cast<float>(bits >> 9), 0.5f), 0x1p-23f);
}

template <class T>
__global__ void draw_normal_kernel(DrawNormal a) {
  for (int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; at < a.count;
       at += gridDim.x * static_cast<int64_t>(blockDim.x)) {
    int64_t rest = at;
    uint64_t index = 0, stride = 1;
    for (int d = a.dims - 1; d >= 0; --d) {
      const int64_t coordinate = d == 0 ? rest : rest % a.sizes[d];
      rest /= a.sizes[d];
      index += stride * static_cast<uint64_t>(a.offsets[d] + coordinate);
      stride *= static_cast<uint64_t>(a.shape[d]);
    }
    const Block block = philox(index / 4, a.key);
    const int pair = index % 4 < 2 ? 0 : 2;
    const float radius = sqrtf(__fmul_rn(-2.0f, logf(open_unit(block.numbers[pair]))));
    const float angle = __fmul_rn(6.2831853071795864f, open_unit(block.numbers[pair + 1]));
    const float value = __fmul_rn(radius, index % 2 == 0 ? cosf(angle) : sinf(angle));
    static_cast<T*>(a.y)[at] = narrow<T>(__fadd_rn(a.mean, __fmul_rn(a.stddev, value)));
  }
}

constexpr int kRowThreads = 1024, kOfLane = 8, kTile = kWarp * kOfLane, kMaxTiles = 12288;

// Elements [first, first + 8) of a row; what is behind its end is impossible.
template <class T, bool kPacked>
__device__ inline void load_scores(const T* row, int64_t first, int64_t width, float (&x)[kOfLane]) {
  if (kPacked && first + kOfLane <= width) {
#pragma unroll
    for (int p = 0; p < kOfLane / Pack<T>::kCount; ++p) {
      const Pack<T> pack = Pack<T>::at(row + first, p);
#pragma unroll
      for (int j = 0; j < Pack<T>::kCount; ++j) x[p * Pack<T>::kCount + j] = pack.get(j);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kOfLane; ++j) x[j] = first + j < width ? wide(row[first + j]) : -INFINITY;
}

__device__ inline double warp_prefix(double x, int lane) {  // the sum of this lane's and all before it
  for (int step = 1; step < kWarp; step *= 2) {
    const double other = __shfl_up_sync(~0u, x, step);
    if (lane >= step) x += other;
  }
  return x;
}

// A block for a row. The weights of each tile are summed up by one warp; the first warp then finds the tile in which
// the sum passes the threshold, and in it the token.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kRowThreads) sample_rows_kernel(const SampleRows a) {
  extern __shared__ float tiles[];
  __shared__ float parts[kRowThreads / kWarp], base_parts[kRowThreads / kWarp];
  __shared__ int indices[kRowThreads / kWarp], token;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = kRowThreads / kWarp;
  const int64_t row_index = blockIdx.x;
  const T* row = static_cast<const T*>(a.x) + row_index * a.x_row;
  const int count = static_cast<int>((a.width + kTile - 1) / kTile);
  float x[kOfLane];

  // The first of the largest; a NaN is the largest.
  float most = -INFINITY;
  int at = 0x7fffffff;
  const auto take = [&](float value, int index) {
    const bool is_better = value > most || (value != value && most == most);
    if (is_better || (index < at && (value == most || (value != value && most != most)))) most = value, at = index;
  };
  for (int tile = warp; tile < count; tile += warps) {
    const int64_t first = static_cast<int64_t>(tile) * kTile + lane * kOfLane;
    load_scores<T, kPacked>(row, first, a.width, x);
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) take(x[j], static_cast<int>(first) + j);
  }
  const auto merge_warp = [&] {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const float value = __shfl_xor_sync(~0u, most, step);
      const int index = __shfl_xor_sync(~0u, at, step);
      take(value, index);
    }
  };
  merge_warp();
  if (lane == 0) parts[warp] = most, indices[warp] = at;
  __syncthreads();
  most = parts[lane], at = indices[lane];
  merge_warp();  // every warp, so that all threads know it
  __syncthreads();

  const double temperature = a.settings[row_index], uniform = a.settings[a.rows + row_index];
  const float inverse = temperature > 0 ? static_cast<float>(1.0 / temperature) : 1.0f;
  float base = 0;  // the weights without a temperature
  for (int tile = warp; tile < count; tile += warps) {
    load_scores<T, kPacked>(row, static_cast<int64_t>(tile) * kTile + lane * kOfLane, a.width, x);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) {
      const float less = x[j] - most, weight = expf(less * inverse);
      sum += weight;
      base += inverse == 1.0f ? weight : expf(less);
    }
    sum = warp_sum(sum);
    if (lane == 0) tiles[tile] = sum;
  }
  base = warp_sum(base);
  if (lane == 0) base_parts[warp] = base;
  __syncthreads();
  const bool is_possible = most == most && most > -INFINITY;
  if (warp == 0) {
    int chosen = at;
    if (is_possible && temperature > 0 && most < INFINITY) {
      double total = 0;
      for (int tile = lane; tile < count; tile += kWarp) total += tiles[tile];
      for (int step = kWarp / 2; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
      const double threshold = uniform * total;
      double before = 0;
      int tile = 0, last = 0;  // the last tile with a weight, where rounding leaves the threshold above all
      double before_last = 0;
      for (; tile < count; tile += kWarp) {
        const double own = tile + lane < count ? tiles[tile + lane] : 0.0;
        const double sum = before + warp_prefix(own, lane);
        const unsigned above = __ballot_sync(~0u, tile + lane < count && own > 0 && sum > threshold);
        const unsigned some = __ballot_sync(~0u, own > 0);
        const int from = above ? __ffs(above) - 1 : some ? 31 - __clz(some) : -1;
        if (from >= 0) {
          last = tile + from;
          before_last = __shfl_sync(~0u, sum - own, from);
        }
        if (above) break;
        before = __shfl_sync(~0u, sum, kWarp - 1);
      }
      const int64_t first = static_cast<int64_t>(last) * kTile + lane * kOfLane;
      load_scores<T, kPacked>(row, first, a.width, x);
      float own = 0;
#pragma unroll
      for (int j = 0; j < kOfLane; ++j) own += expf((x[j] - most) * inverse);
      double sum = before_last + warp_prefix(own, lane);
      const unsigned above = __ballot_sync(~0u, own > 0 && sum > threshold);
      const unsigned some = __ballot_sync(~0u, own > 0);
      const int from = above ? __ffs(above) - 1 : 31 - __clz(some);
      if (lane == from) {
        sum -= own;
        for (int j = 0; j < kOfLane; ++j) {
          const float weight = expf((x[j] - most) * inverse);
          sum += weight;
          if (weight > 0) chosen = static_cast<int>(first) + j;
          if (weight > 0 && sum > threshold) break;
        }
      }
      chosen = __shfl_sync(~0u, chosen, from);
    }
    if (lane == 0) token = chosen;
  }
  __syncthreads();
  const int chosen = token;
  const float score = wide(row[chosen]);
  base = warp_sum(base_parts[lane]);
  // How many are greater.
  int greater = 0;
  for (int tile = warp; a.wants_ranks && tile < count; tile += warps) {
    load_scores<T, kPacked>(row, static_cast<int64_t>(tile) * kTile + lane * kOfLane, a.width, x);
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) greater += x[j] > score ? 1 : 0;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) greater += __shfl_xor_sync(~0u, greater, step);
  if (lane == 0) indices[warp] = greater;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int rank = 1;
  for (int i = 0; i < warps; ++i) rank += indices[i];
  a.out[row_index] = is_possible ? chosen : -1;
  a.out[a.rows + row_index] = score - most - logf(base);
  a.out[2 * a.rows + row_index] = rank;
}

}  // namespace

bool can_sample_rows(const SampleRows& a) { return a.width > 0 && a.width <= static_cast<int64_t>(kMaxTiles) * kTile; }

void sample_rows(Element type, const SampleRows& a, Stream stream) {
  if (a.rows == 0) return;
  const auto blocks = static_cast<unsigned>(a.rows);
  const auto bytes = static_cast<std::size_t>((a.width + kTile - 1) / kTile) * sizeof(float);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (reinterpret_cast<std::uintptr_t>(a.x) % 16 == 0 && a.x_row % Pack<T>::kCount == 0) {
      sample_rows_kernel<T, true><<<blocks, kRowThreads, bytes, stream>>>(a);
    } else {
      sample_rows_kernel<T, false><<<blocks, kRowThreads, bytes, stream>>>(a);
    }
  });
}

void draw_normal(Element type, const DrawNormal& args, Stream stream) {
  if (args.count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((args.count + 255) / 256, 1 << 16));
  with_type(type, [&](auto t) { draw_normal_kernel<decltype(t)><<<blocks, 256, 0, stream>>>(args); });
}

}  // namespace easydel::operations::cuda_kernels
