// One query of each sequence over its pages. The keys of a sequence are split over thread blocks, those of a block over
// its warps; every warp reads its keys and values straight into the fragments of tensor core products, sixteen bytes
// at a time, with all query heads that share them. Scores are in powers of two.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/paged/paged_kernels.h"
#include "easydel/operations/kernels/cuda/paged/paged_row_types.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kPagedWarps = 4, kPagedThreads = kPagedWarps * kWarp;
constexpr int kTileKeys = 16;   // the keys of one product
constexpr int kPartKeys = 128;  // parts of a sequence are multiples of this many keys
constexpr int kMaxSplits = 64, kMaxRow = 576, kPlainHeads = 4;

// What a query sees: slots [begin, end), as `parts` of `chunk` keys from slot `first` on.
struct PagedSpan {
  int begin, end, first, chunk, parts;
};
__device__ inline PagedSpan span_of(const PagedDecode& a, int query) {
  PagedSpan s{};
  s.end = min(a.lengths[query], a.blocks << a.page_shift);
  if (s.end <= 0) return s;
  s.begin = a.window > 0 && a.window < s.end ? s.end - static_cast<int>(a.window) : 0;
  s.first = s.begin / kTileKeys * kTileKeys;
  const int keys = s.end - s.first;
  const int wanted = min(max(keys / a.least_keys, 1), a.splits);
  s.chunk = ((keys + wanted - 1) / wanted + kPartKeys - 1) / kPartKeys * kPartKeys;
  s.parts = (keys + s.chunk - 1) / s.chunk;
  return s;
}

// The scratch of split results: maximum and sum of each (query, head, split), then its value_size sums.
__host__ __device__ inline int64_t split_rows(const PagedDecode& a) {
  return static_cast<int64_t>(a.queries) * a.kv_heads * a.shared * a.splits;
}

template <class T>
__device__ inline void put_result(const PagedDecode& a, int64_t row, int head, int d, float value, float most,
                                  float sum) {
  if (a.sinks) {
    const float sink = a.sinks[head] * kLog2E, now = fmaxf(most, sink), keep = power_of_two(most - now);
    value *= keep;
    sum = sum * keep + power_of_two(sink - now);
  }
  static_cast<T*>(a.out)[row * a.value_size + d] = narrow<T>(value / sum);
}

// Adds up the warps of a block, for `heads` heads from `first_head` on. values [warps][kHeads][stride], most and sums
// [warps][kHeads].
template <class T, int kHeads>
__device__ inline void finish_block(const PagedDecode& a, int query, int first_head, int heads, int split,
                                    const float* values, int stride, const float* most, const float* sums) {
  const int64_t all_heads = static_cast<int64_t>(a.kv_heads) * a.shared;
  for (int i = threadIdx.x; i < heads * a.value_size; i += kPagedThreads) {
    const int h = i / a.value_size, d = i % a.value_size;
    float largest = -INFINITY, sum = 0, value = 0;
    for (int w = 0; w < kPagedWarps; ++w) largest = fmaxf(largest, most[w * kHeads + h]);
    for (int w = 0; w < kPagedWarps; ++w) {
      const float weight = power_of_two(most[w * kHeads + h] - largest);
      sum += sums[w * kHeads + h] * weight;
      value += values[(w * kHeads + h) * stride + d] * weight;
    }
    const int64_t row = query * all_heads + first_head + h;
    if (a.splits == 1) {
      put_result<T>(a, row, first_head + h, d, value, largest, sum);
      continue;
    }
    const int64_t at = row * a.splits + split;
    if (d == 0) a.scratch[2 * at] = largest, a.scratch[2 * at + 1] = sum;
    a.scratch[2 * split_rows(a) + at * a.value_size + d] = value;
  }
}

template <class T>
__device__ inline void put_zeros(const PagedDecode& a, int query, int first_head, int heads) {
  T* to = static_cast<T*>(a.out) + (static_cast<int64_t>(query) * a.kv_heads * a.shared + first_head) * a.value_size;
  for (int i = threadIdx.x; i < heads * a.value_size; i += kPagedThreads) to[i] = narrow<T>(0.0f);
}

// Of an 8 x 8 matrix of 16-bit elements, of which thread (row, pair) = (lane / 4, lane % 4) has two.
__device__ inline uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// The state of a warp: lane = 4 * g + t. Keys are the rows of the first product and query heads the columns, so that
// eight heads fill it: scores^T = k q^T, and then out^T = v^T weights^T.
//   k: this thread reads features 32 c + 8 t … + 7 of keys g and g + 8. The order of features in a product is free, so
//      these eight are those of two products, and q is read in the same order.
//   v: this thread reads features 64 j + 8 g … + 7 of keys 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. Of these, 2 i is
//      row g of product i, and 2 i + 1 is row g + 8; so out has eight features in a row for heads 2 t and 2 t + 1.
// kTiles: of eight query heads. kSub: of sixteen keys at a time.
// Rows: of the pages, see paged_row_types.cuh.
template <class T, class Rows, int kHead, int kTiles, int kSub>
struct PagedWarp {
  using Element = typename Rows::Element;
  using Raw = typename Rows::Raw;
  static constexpr int kChunks = (kHead + 31) / 32, kGroups = (kHead + 63) / 64, kKeys = kSub * kTileKeys;
  static constexpr int kHeads = 8 * kTiles, kStride = kHead + 4;
  static constexpr bool kEarlyValues = kHead <= 128;  // all values of a step fit in registers beside the keys

  const PagedDecode& a;
  const Element *k_head, *v_head;
  const int32_t* table;
  const PagedSpan span;
  const int to, g, t;
  uint32_t q[kTiles][kChunks][4];
  Raw k[kSub][kChunks][2], v[kSub][kGroups][4];
  float k_scale[kSub][2], v_scale[kSub][4];
  float out[kTiles][kGroups][4][4], most[kTiles][2], sum[kTiles][2];

  __device__ PagedWarp(const PagedDecode& args, const PagedSpan& s, int end, int query, int kv, int first_head,
                       int heads)
      : a(args), span(s), to(end), g(threadIdx.x % kWarp / 4), t(threadIdx.x % 4) {
    k_head = static_cast<const Element*>(a.k) + kv * a.k_strides.head;
    v_head = static_cast<const Element*>(a.v) + kv * a.v_strides.head;
    table = a.tables + query * a.table_row;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      most[n][0] = most[n][1] = -INFINITY;
      sum[n][0] = sum[n][1] = 0;
      const int h = 8 * n + g;
      const T* from = static_cast<const T*>(a.q) + query * a.q_row + (first_head + h) * a.q_head;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int d = 32 * c + 8 * t;
        const uint4 x = h < heads && d < kHead ? load_pack(from + d) : uint4{};
        q[n][c][0] = x.x, q[n][c][1] = x.y, q[n][c][2] = x.z, q[n][c][3] = x.w;
      }
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][j][i][0] = out[n][j][i][1] = out[n][j][i][2] = out[n][j][i][3] = 0;
      }
    }
  }

  // Slots outside of the span are never read: their pages may not exist. Their place is taken by one that is visible.
  __device__ int visible(int slot) const { return min(max(slot, span.begin), to - 1); }
  __device__ void find_pages(int (&pages)[kSub], int start) const {
#pragma unroll
    for (int s = 0; s < kSub; ++s) pages[s] = __ldg(table + (visible(start + s * kTileKeys) >> a.page_shift));
  }
  __device__ int row_of(int slot) const { return visible(slot) & ((1 << a.page_shift) - 1); }

  __device__ void load_keys(const int (&pages)[kSub], int start) {
#pragma unroll
    for (int s = 0; s < kSub; ++s) {
      const Element* page = k_head + pages[s] * a.k_strides.page;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Element* row = page + row_of(start + s * kTileKeys + 8 * half + g) * a.k_strides.row;
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          const int d = 32 * c + 8 * t;
          k[s][c][half] = d < kHead ? Rows::load(row + d) : Raw{};
        }
        k_scale[s][half] = Rows::scale(row, kHead);
      }
    }
  }

  __device__ void load_values(const int (&pages)[kSub], int start, int j) {
#pragma unroll
    for (int s = 0; s < kSub; ++s) {
      const Element* page = v_head + pages[s] * a.v_strides.page;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int slot = start + s * kTileKeys + 2 * t + (i & 1) + 8 * (i >> 1), d = 64 * j + 8 * g;
        const Element* row = page + row_of(slot) * a.v_strides.row;
        v[s][j][i] = d < kHead ? Rows::load(row + d) : Raw{};
        if (j == 0) v_scale[s][i] = Rows::scale(row, kHead);
      }
    }
  }

  __device__ void multiply_keys(float (&scores)[kSub][kTiles][4]) const {
#pragma unroll
    for (int s = 0; s < kSub; ++s) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) scores[s][n][0] = scores[s][n][1] = scores[s][n][2] = scores[s][n][3] = 0;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const uint4 low = Rows::widen(k[s][c][0], k_scale[s][0]), high = Rows::widen(k[s][c][1], k_scale[s][1]);
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          float(&d)[4] = scores[s][n];
          multiply_tile<T>(d, low.x, high.x, low.y, high.y, q[n][c][0], q[n][c][1]);
          multiply_tile<T>(d, low.z, high.z, low.w, high.w, q[n][c][2], q[n][c][3]);
        }
      }
    }
  }

  // Scores to weights, in place; scales what was added up before.
  __device__ void to_weights(float (&scores)[kSub][kTiles][4], int start, const ToScore& to_score) {
    const bool partly = start < span.begin || start + kKeys > to;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float now[2] = {most[n][0], most[n][1]};
#pragma unroll
      for (int s = 0; s < kSub; ++s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& x = scores[s][n][e];
          x = to_score(x);
          const int slot = start + s * kTileKeys + g + 8 * (e >> 1);
          if (partly && (slot < span.begin || slot >= to)) x = -INFINITY;
          now[e & 1] = fmaxf(now[e & 1], x);
        }
      }
      float keep[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        for (int step = 4; step < kWarp; step *= 2) now[e] = fmaxf(now[e], __shfl_xor_sync(~0u, now[e], step));
        keep[e] = power_of_two(most[n][e] - now[e]);
        most[n][e] = now[e];
        sum[n][e] *= keep[e];
      }
#pragma unroll
      for (int s = 0; s < kSub; ++s) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          scores[s][n][e] = power_of_two(scores[s][n][e] - now[e & 1]);
          sum[n][e & 1] += scores[s][n][e];
        }
      }
      if (!__any_sync(~0u, keep[0] != 1.0f || keep[1] != 1.0f)) continue;
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) out[n][j][i][e] *= keep[e & 1];
        }
      }
    }
  }

  __device__ void add_values(const uint32_t (&weights)[kSub][kTiles][2], int j) {
#pragma unroll
    for (int s = 0; s < kSub; ++s) {
      uint4 wide_v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) wide_v[i] = Rows::widen(v[s][j][i], v_scale[s][i]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t x0 = word(wide_v[0], i), x1 = word(wide_v[1], i);
        const uint32_t x2 = word(wide_v[2], i), x3 = word(wide_v[3], i);
        const uint32_t a0 = __byte_perm(x0, x1, 0x5410), a1 = __byte_perm(x0, x1, 0x7632);
        const uint32_t a2 = __byte_perm(x2, x3, 0x5410), a3 = __byte_perm(x2, x3, 0x7632);
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
          multiply_tile<T>(out[n][j][i], a0, a1, a2, a3, weights[s][n][0], weights[s][n][1]);
      }
    }
  }

  // Every kPagedWarps-th step of kKeys keys from `start` on. The keys of the next step are on their way while this one
  // is computed, and its pages are found yet one step earlier.
  __device__ void run(int start) {
    constexpr int kStep = kPagedWarps * kKeys;
    if (start >= to) return;
    const ToScore to_score(a.scale, a.softcap);
    int pages[kSub], next[kSub], after[kSub];
    find_pages(pages, start);
    find_pages(next, start + kStep);
    load_keys(pages, start);
    for (; start < to; start += kStep) {
      if constexpr (kEarlyValues) {
#pragma unroll
        for (int j = 0; j < kGroups; ++j) load_values(pages, start, j);
      }
      find_pages(after, start + 2 * kStep);
      float scores[kSub][kTiles][4];
      multiply_keys(scores);
      if (start + kStep < to) load_keys(next, start + kStep);
      to_weights(scores, start, to_score);
      uint32_t weights[kSub][kTiles][2];
#pragma unroll
      for (int s = 0; s < kSub; ++s) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          weights[s][n][0] = transposed(pack_pair<T>(scores[s][n][0], scores[s][n][1]));
          weights[s][n][1] = transposed(pack_pair<T>(scores[s][n][2], scores[s][n][3]));
        }
      }
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        if constexpr (!kEarlyValues) load_values(pages, start, j);
        add_values(weights, j);
      }
#pragma unroll
      for (int s = 0; s < kSub; ++s) pages[s] = next[s], next[s] = after[s];
    }
  }

  __device__ void put(float* values, float* all_most, float* all_sums) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        for (int step = 4; step < kWarp; step *= 2) sum[n][e] += __shfl_xor_sync(~0u, sum[n][e], step);
        const int h = 8 * n + 2 * t + e;
        if (g == 0) all_most[h] = most[n][e], all_sums[h] = sum[n][e];
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
          if (64 * j + 8 * g >= kHead) continue;
          auto* at = reinterpret_cast<float4*>(values + h * kStride + 64 * j + 8 * g);
          const auto& o = out[n][j];
          at[0] = {o[0][e], o[0][e + 2], o[1][e], o[1][e + 2]};
          at[1] = {o[2][e], o[2][e + 2], o[3][e], o[3][e + 2]};
        }
      }
    }
  }
};

template <class T, class Rows, int kHead, int kTiles, int kSub, int kBlocks>
__global__ void __launch_bounds__(kPagedThreads, kBlocks) paged_tile_kernel(const PagedDecode a) {
  using Warp = PagedWarp<T, Rows, kHead, kTiles, kSub>;
  __shared__ alignas(16) float values[kPagedWarps][Warp::kHeads][Warp::kStride];
  __shared__ float most[kPagedWarps][Warp::kHeads], sums[kPagedWarps][Warp::kHeads];
  const int chunks = (a.shared + Warp::kHeads - 1) / Warp::kHeads;
  const int split = blockIdx.x, query = blockIdx.z, kv = blockIdx.y / chunks,
            skipped = blockIdx.y % chunks * Warp::kHeads;
  const int first_head = kv * a.shared + skipped, heads = min(Warp::kHeads, a.shared - skipped);
  const PagedSpan span = span_of(a, query);
  if (split >= span.parts) {
    if (a.splits == 1) put_zeros<T>(a, query, first_head, heads);
    return;
  }
  const int from = span.first + split * span.chunk, warp = threadIdx.x / kWarp;
  Warp state(a, span, min(span.end, from + span.chunk), query, kv, first_head, heads);
  state.run(from + warp * Warp::kKeys);
  state.put(&values[warp][0][0], most[warp], sums[warp]);
  __syncthreads();
  finish_block<T, Warp::kHeads>(a, query, first_head, heads, split, &values[0][0][0], Warp::kStride, &most[0][0],
                                &sums[0][0]);
}

// For everything else: a warp has one key at a time, and each lane every 32nd feature.
template <class T, class Rows, int kLane>
__global__ void __launch_bounds__(kPagedThreads) paged_plain_kernel(const PagedDecode a) {
  __shared__ float values[kPagedWarps][kPlainHeads][kLane * kWarp];
  __shared__ float all_most[kPagedWarps][kPlainHeads], all_sums[kPagedWarps][kPlainHeads];
  const int chunks = (a.shared + kPlainHeads - 1) / kPlainHeads, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int split = blockIdx.x, query = blockIdx.z, kv = blockIdx.y / chunks,
            skipped = blockIdx.y % chunks * kPlainHeads;
  const int first_head = kv * a.shared + skipped, heads = min(kPlainHeads, a.shared - skipped);
  const PagedSpan span = span_of(a, query);
  if (split >= span.parts) {
    if (a.splits == 1) put_zeros<T>(a, query, first_head, heads);
    return;
  }
  float q[kPlainHeads][kLane], out[kPlainHeads][kLane] = {}, most[kPlainHeads], sum[kPlainHeads] = {};
#pragma unroll
  for (int h = 0; h < kPlainHeads; ++h) {
    most[h] = -INFINITY;
    const T* from = static_cast<const T*>(a.q) + query * a.q_row + (first_head + h) * a.q_head;
#pragma unroll
    for (int i = 0; i < kLane; ++i) {
      const int d = i * kWarp + lane;
      q[h][i] = h < heads && d < a.head_size ? wide(from[d]) : 0.0f;
    }
  }
  const ToScore to_score(a.scale, a.softcap);
  const int from = max(span.first + split * span.chunk, span.begin);
  const int to = min(span.end, span.first + (split + 1) * span.chunk);
  for (int slot = from + warp; slot < to; slot += kPagedWarps) {
    const int64_t page = a.tables[query * a.table_row + (slot >> a.page_shift)], row = slot & ((1 << a.page_shift) - 1);
    const auto* k = static_cast<const typename Rows::Element*>(a.k) + page * a.k_strides.page + kv * a.k_strides.head +
                    row * a.k_strides.row;
    const auto* v = static_cast<const typename Rows::Element*>(a.v) + page * a.v_strides.page + kv * a.v_strides.head +
                    row * a.v_strides.row;
    const float k_scale = Rows::scale(k, a.head_size), v_scale = Rows::scale(v, a.value_size);
    float key[kLane], value[kLane];
#pragma unroll
    for (int i = 0; i < kLane; ++i) {
      const int d = i * kWarp + lane;
      key[i] = d < a.head_size ? Rows::at(k, d) * k_scale : 0.0f;
      value[i] = d < a.value_size ? Rows::at(v, d) * v_scale : 0.0f;
    }
#pragma unroll
    for (int h = 0; h < kPlainHeads; ++h) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < kLane; ++i) score += q[h][i] * key[i];
      score = to_score(warp_sum(score));
      const float now = fmaxf(most[h], score), keep = power_of_two(most[h] - now), weight = power_of_two(score - now);
      most[h] = now;
      sum[h] = sum[h] * keep + weight;
#pragma unroll
      for (int i = 0; i < kLane; ++i) out[h][i] = out[h][i] * keep + weight * value[i];
    }
  }
#pragma unroll
  for (int h = 0; h < kPlainHeads; ++h) {
    if (lane == 0) all_most[warp][h] = most[h], all_sums[warp][h] = sum[h];
#pragma unroll
    for (int i = 0; i < kLane; ++i) values[warp][h][i * kWarp + lane] = out[h][i];
  }
  __syncthreads();
  finish_block<T, kPlainHeads>(a, query, first_head, heads, split, &values[0][0][0], kLane * kWarp, &all_most[0][0],
                               &all_sums[0][0]);
}

dim3 paged_grid(const PagedDecode& a, int heads_of_block) {
  return dim3(a.splits, a.kv_heads * ((a.shared + heads_of_block - 1) / heads_of_block), a.queries);
}

template <class T, class Rows, int kHead, int kSub, int kBlocks>
void decode_tiles(const PagedDecode& a, Stream stream) {
  if constexpr (kHead <= 128) {
    if (a.shared > 8)
      return paged_tile_kernel<T, Rows, kHead, 2, 1, 2><<<paged_grid(a, 16), kPagedThreads, 0, stream>>>(a);
  }
  paged_tile_kernel<T, Rows, kHead, 1, kSub, kBlocks><<<paged_grid(a, 8), kPagedThreads, 0, stream>>>(a);
}

template <class Rows>
bool in_packs(const PagedDecode& a) {
  const auto is_dense = [](const void* x, std::initializer_list<int64_t> strides, int64_t size, int64_t alignment) {
    bool all = reinterpret_cast<std::uintptr_t>(x) % alignment == 0;
    for (const int64_t n : strides) all &= n * size % alignment == 0;
    return all;
  };
  constexpr auto kSize = static_cast<int64_t>(sizeof(typename Rows::Element)), kAlignment = Rows::kAlignment;
  return is_dense(a.q, {a.q_row, a.q_head}, 2, 16) &&
         is_dense(a.k, {a.k_strides.page, a.k_strides.head, a.k_strides.row}, kSize, kAlignment) &&
         is_dense(a.v, {a.v_strides.page, a.v_strides.head, a.v_strides.row}, kSize, kAlignment);
}

// False: there are no such tiles.
template <class T, class Rows>
bool decode_in_tiles(const PagedDecode& a, Stream stream) {
  if (a.head_size != a.value_size || (1 << a.page_shift) < kTileKeys || !in_packs<Rows>(a)) return false;
  switch (a.head_size) {
    case 64: decode_tiles<T, Rows, 64, 2, 4>(a, stream); return true;
    case 80: decode_tiles<T, Rows, 80, 1, 3>(a, stream); return true;
    case 96: decode_tiles<T, Rows, 96, 1, 3>(a, stream); return true;
    case 128: decode_tiles<T, Rows, 128, 1, 3>(a, stream); return true;
    case 256: decode_tiles<T, Rows, 256, 1, 2>(a, stream); return true;
    default: return false;
  }
}

template <class T, class Rows>
void decode_plainly(const PagedDecode& a, Stream stream) {
  const dim3 grid = paged_grid(a, kPlainHeads);
  const int size = std::max(a.head_size, a.value_size);
  if (size <= 64) {
    paged_plain_kernel<T, Rows, 2><<<grid, kPagedThreads, 0, stream>>>(a);
  } else if (size <= 128) {
    paged_plain_kernel<T, Rows, 4><<<grid, kPagedThreads, 0, stream>>>(a);
  } else if (size <= 256) {
    paged_plain_kernel<T, Rows, 8><<<grid, kPagedThreads, 0, stream>>>(a);
  } else {
    paged_plain_kernel<T, Rows, kMaxRow / kWarp><<<grid, kPagedThreads, 0, stream>>>(a);
  }
}

}  // namespace
}  // namespace easydel::operations::cuda_kernels
