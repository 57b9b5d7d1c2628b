#include "easydel/operations/kernels/cuda/expert_rows.h"

#include <type_traits>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/launch_after.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kChunk = 512;  // rows that one block sorts

// Floats in their order as unsigned integers above 0; NaN is the largest, as it is for torch.
__device__ inline uint32_t ordered(float x) {
  if (isnan(x)) return ~0u;
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float warp_max(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Each warp has one token, each lane every 32nd of its scores: kLane of them.
__device__ inline int64_t token_of_warp() {
  return static_cast<int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
}

template <class T, int kLane>
__device__ inline void read_scores(float (&scores)[kLane], const void* logits, int64_t token, const Router& r) {
  const int lane = threadIdx.x % kWarp;
  const T* row = static_cast<const T*>(logits) + token * r.count;
#pragma unroll
  for (int i = 0; i < kLane; ++i) {
    const int e = i * kWarp + lane;
    scores[i] = e < r.count ? wide(row[e]) : -INFINITY;
    if (r.scoring == Scoring::Sigmoid) scores[i] = sigmoid(scores[i]);
  }
  if (r.scoring != Scoring::Softmax) return;
  float most = scores[0], sum = 0;
#pragma unroll
  for (int i = 1; i < kLane; ++i) most = fmaxf(most, scores[i]);
  most = warp_max(most);
#pragma unroll
  for (int i = 0; i < kLane; ++i) sum += scores[i] = expf(scores[i] - most);
  sum = warp_sum(sum);
#pragma unroll
  for (int i = 0; i < kLane; ++i) scores[i] /= sum;
}

template <class T, int kLane>
__global__ void route_kernel(Router r, Route a) {
  next_may_start();
  wait_for_previous();
  const int64_t token = token_of_warp();
  if (token >= r.tokens) return;
  const int lane = threadIdx.x % kWarp;
  float scores[kLane];
  uint32_t keys[kLane];
  read_scores<T>(scores, a.logits, token, r);
#pragma unroll
  for (int i = 0; i < kLane; ++i) {
    const int e = i * kWarp + lane;
    keys[i] = e < r.count ? ordered(a.bias ? scores[i] + a.bias[e] : scores[i]) : 0;
  }
  float sum = 0, most = -INFINITY;
  for (int k = 0; k < r.top_k; ++k) {
    uint32_t key = 0;
#pragma unroll
    for (int i = 0; i < kLane; ++i) key = max(key, keys[i]);
    key = __reduce_max_sync(~0u, key);
    unsigned chosen = ~0u;
#pragma unroll
    for (int i = kLane - 1; i >= 0; --i) {
      if (keys[i] == key) chosen = static_cast<unsigned>(i * kWarp + lane);
    }
    chosen = __reduce_min_sync(~0u, chosen);
    float score = 0;
#pragma unroll
    for (int i = 0; i < kLane; ++i) {
      if (static_cast<unsigned>(i * kWarp + lane) != chosen) continue;
      keys[i] = 0;
      score = scores[i];
    }
    score = __shfl_sync(~0u, score, static_cast<int>(chosen % kWarp));
    sum += score;
    most = fmaxf(most, score);
    if (lane == 0) {
      a.experts[token * r.top_k + k] = chosen;
      if (a.weights) a.weights[token * r.top_k + k] = score;
    }
  }
  if (!a.weights) return;
  __syncwarp();
  float* weights = a.weights + token * r.top_k;
  float factor = r.scale;
  if (r.scoring == Scoring::SoftmaxOfChosen) {
    sum = 0;
    for (int k = lane; k < r.top_k; k += kWarp) sum += weights[k] = expf(weights[k] - most);
    factor /= warp_sum(sum);
  } else if (r.renormalize) {
    factor /= r.scoring == Scoring::Sigmoid ? sum + 1e-20f : sum;  // sigmoids may all be zero
  }
  for (int k = lane; k < r.top_k; k += kWarp) weights[k] *= factor;
}

// A renormalized softmax over all equals a softmax over the chosen ones.
template <class T, int kLane>
__global__ void route_backward_kernel(Router r, RouteBackward a) {
  const int64_t token = token_of_warp();
  if (token >= r.tokens) return;
  const int lane = threadIdx.x % kWarp;
  const float *weights = a.weights + token * r.top_k, *d_weights = a.d_weights + token * r.top_k;
  const int64_t* experts = a.experts + token * r.top_k;
  const T* logits = static_cast<const T*>(a.logits) + token * r.count;
  T* d_logits = static_cast<T*>(a.d_logits) + token * r.count;
  float dot = 0, sum = 0;
  for (int k = lane; k < r.top_k; k += kWarp) {
    dot += weights[k] * d_weights[k];
    if (r.scoring == Scoring::Sigmoid) sum += sigmoid(wide(logits[experts[k]]));
  }
  dot = warp_sum(dot) / r.scale;
  sum = warp_sum(sum) + 1e-20f;
  if (r.scoring == Scoring::Softmax && !r.renormalize) {
    float scores[kLane];
    read_scores<T>(scores, a.logits, token, r);
#pragma unroll
    for (int i = 0; i < kLane; ++i) {
      const int e = i * kWarp + lane;
      if (e < r.count) d_logits[e] = narrow<T>(-r.scale * scores[i] * dot);
    }
  } else {
    for (int e = lane; e < r.count; e += kWarp) d_logits[e] = narrow<T>(0.0f);
  }
  __syncwarp();
  for (int k = lane; k < r.top_k; k += kWarp) {
    float d = 0;
    if (r.scoring == Scoring::Sigmoid) {
      const float score = sigmoid(wide(logits[experts[k]]));
      const float d_score = r.renormalize ? (d_weights[k] - dot) / sum : d_weights[k];
      d = r.scale * d_score * score * (1.0f - score);
    } else {
      d = weights[k] * (d_weights[k] - dot);
    }
    d_logits[experts[k]] = narrow<T>(d);
  }
}

__global__ void count_kernel(SortByExpert a) {
  extern __shared__ int32_t counts[];
  for (int e = threadIdx.x; e < a.count; e += blockDim.x) counts[e] = 0;
  __syncthreads();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunk;
  for (int64_t r = begin + threadIdx.x; r < min(begin + kChunk, a.rows); r += blockDim.x) {
    const int64_t expert = a.experts[r];
    if (expert < 0 || expert >= a.count) __trap();
    atomicAdd(&counts[expert], 1);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < a.count; e += blockDim.x) a.scratch[blockIdx.x * a.count + e] = counts[e];
}

// Each thread has one expert: an exclusive prefix sum of the chunks' counts.
__global__ void __launch_bounds__(kMaxExperts) scan_kernel(SortByExpert a, int chunks) {
  __shared__ int32_t warps[kWarp];
  const int e = static_cast<int>(threadIdx.x), lane = e % kWarp;
  int32_t total = 0;
  constexpr int kAtOnce = 16;  // loads in flight before the first store
  for (int first = 0; e < a.count && first < chunks; first += kAtOnce) {
    int32_t counts[kAtOnce];
#pragma unroll
    for (int c = 0; c < kAtOnce; ++c) counts[c] = first + c < chunks ? a.scratch[(first + c) * a.count + e] : 0;
#pragma unroll
    for (int c = 0; c < kAtOnce; ++c) {
      if (first + c < chunks) a.scratch[(first + c) * a.count + e] = total;
      total += counts[c];
    }
  }
  const auto scan = [lane](int32_t x) {
    for (int step = 1; step < kWarp; step *= 2) {
      const int32_t before = __shfl_up_sync(~0u, x, step);
      if (lane >= step) x += before;
    }
    return x;
  };
  const int32_t inside = scan(total);
  if (lane == kWarp - 1) warps[e / kWarp] = inside;
  __syncthreads();
  if (e < kWarp) warps[e] = scan(e < static_cast<int>(blockDim.x) / kWarp ? warps[e] : 0);
  __syncthreads();
  if (e < a.count) a.ends[e] = inside + (e >= kWarp ? warps[e / kWarp - 1] : 0);
}

// One warp per chunk, 32 rows at a time.
__global__ void place_kernel(SortByExpert a) {
  extern __shared__ int32_t next[];
  const int lane = static_cast<int>(threadIdx.x);
  for (int e = lane; e < a.count; e += kWarp) next[e] = a.scratch[blockIdx.x * a.count + e] + (e ? a.ends[e - 1] : 0);
  __syncwarp();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunk, end = min(begin + kChunk, a.rows);
  for (int64_t first = begin; first < end; first += kWarp) {
    const int64_t row = first + lane;
    const int expert = row < end ? static_cast<int>(a.experts[row]) : -1;
    const unsigned same = __match_any_sync(~0u, expert);
    const int before = __popc(same & ((1u << lane) - 1));
    const int64_t place = expert >= 0 ? next[expert] + before : 0;
    __syncwarp();
    if (expert >= 0) {
      if (before == 0) next[expert] += __popc(same);
      a.order[place] = row;
      a.inverse[row] = place;
    }
    __syncwarp();
  }
}

__global__ void spread_kernel(SpreadRows a) {
  const int64_t packs = a.row_bytes / 16, token = blockIdx.x;
  const auto top_k = static_cast<int>(a.top_k);
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const uint4 pack = static_cast<const uint4*>(a.x)[token * packs + i];
#pragma unroll 4
    for (int k = 0; k < top_k; ++k) static_cast<uint4*>(a.y)[a.inverse[token * top_k + k] * packs + i] = pack;
  }
}

template <class T>
__global__ void sum_kernel(SumRows a) {
  using P = Pack<T>;
  const int64_t token = blockIdx.x, packs = a.width / P::kCount;
  const auto top_k = static_cast<int>(a.top_k);
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    float sum[P::kCount] = {};
#pragma unroll 4
    for (int k = 0; k < top_k; ++k) {
      const P row = P::at(a.rows, a.inverse[token * top_k + k] * packs + i);
      const float weight = a.weights ? a.weights[token * top_k + k] : 1.0f;
      for (int j = 0; j < P::kCount; ++j) sum[j] += weight * row.get(j);
    }
    P y;
    for (int j = 0; j < P::kCount; ++j) y.set(j, sum[j]);
    static_cast<uint4*>(a.y)[token * packs + i] = y.bits;
  }
}

// Each warp has one row.
template <class T>
__global__ void weighted_gate_backward_kernel(WeightedGateBackward a) {
  using P = Pack<T>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  if (row >= a.rows) return;
  const int lane = threadIdx.x % kWarp;
  const int64_t packs = a.width / P::kCount, slot = a.order[row];
  const float weight = a.weights[slot];
  auto* d_gate_up = static_cast<uint4*>(a.d_gate_up) + row * 2 * packs;
  auto* weighted = static_cast<uint4*>(a.weighted) + row * packs;
  float dot = 0;
#pragma unroll 2
  for (int64_t i = lane; i < packs; i += kWarp) {
    const P gate = P::at(a.gate_up, row * 2 * packs + i), up = P::at(a.gate_up, (row * 2 + 1) * packs + i);
    const P d_y = P::at(a.d_y, row * packs + i);
    P d_gate, d_up, y;
    for (int j = 0; j < P::kCount; ++j) {
      const Activated act = activate(gate.get(j), a.gelu);
      const float value = wide(narrow<T>(wide(narrow<T>(act.value)) * up.get(j))), d = d_y.get(j) * weight;
      dot += value * d_y.get(j);
      y.set(j, value * weight);
      d_gate.set(j, d * up.get(j) * act.slope);
      d_up.set(j, d * act.value);
    }
    d_gate_up[i] = d_gate.bits;
    d_gate_up[packs + i] = d_up.bits;
    weighted[i] = y.bits;
  }
  dot = warp_sum(dot);
  if (lane == 0) a.d_weights[slot] = dot;
}

// Threads for one pack each, in whole warps, up to 256.
int threads_for(int64_t packs) {
  return static_cast<int>(std::clamp<int64_t>((packs + kWarp - 1) / kWarp * kWarp, kWarp, 256));
}
// f(element, how many scores a lane has).
template <class F>
void with_lanes(Element type, const Router& r, const F& f) {
  if (r.tokens == 0) return;
  with_type(type, [&](auto t) {
    if (r.count <= 2 * kWarp) return f(t, std::integral_constant<int, 2>());
    if (r.count <= 8 * kWarp) return f(t, std::integral_constant<int, 8>());
    f(t, std::integral_constant<int, kMaxExperts / kWarp>());
  });
}
int chunks_of(int64_t rows) { return static_cast<int>((rows + kChunk - 1) / kChunk); }

}  // namespace

void route(Element type, const Router& r, const Route& a, Stream stream) {
  with_lanes(type, r, [&](auto t, auto lane) {
    launch_after(route_kernel<decltype(t), decltype(lane)::value>, dim3(blocks_for(r.tokens, 4)), 4 * kWarp, 0, stream,
                 r, a);
  });
}

void route_backward(Element type, const Router& r, const RouteBackward& a, Stream stream) {
  with_lanes(type, r, [&](auto t, auto lane) {
    route_backward_kernel<decltype(t), decltype(lane)::value><<<blocks_for(r.tokens, 4), 4 * kWarp, 0, stream>>>(r, a);
  });
}

int64_t sort_scratch(int64_t rows, int32_t count) { return static_cast<int64_t>(chunks_of(rows)) * count; }

void sort_by_expert(const SortByExpert& a, Stream stream) {
  const int chunks = chunks_of(a.rows);
  const std::size_t shared = a.count * sizeof(int32_t);
  if (chunks > 0) count_kernel<<<chunks, 256, shared, stream>>>(a);
  scan_kernel<<<1, (a.count + kWarp - 1) / kWarp * kWarp, 0, stream>>>(a, chunks);
  if (chunks > 0) place_kernel<<<chunks, kWarp, shared, stream>>>(a);
}

void spread_rows(const SpreadRows& a, Stream stream) {
  if (a.tokens == 0 || a.row_bytes == 0) return;
  spread_kernel<<<static_cast<unsigned>(a.tokens), threads_for(a.row_bytes / 16), 0, stream>>>(a);
}

void sum_rows(Element type, const SumRows& a, Stream stream) {
  if (a.tokens == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    sum_kernel<T><<<static_cast<unsigned>(a.tokens), threads_for(a.width / Pack<T>::kCount), 0, stream>>>(a);
  });
}

void weighted_gate_backward(Element type, const WeightedGateBackward& a, Stream stream) {
  constexpr int kThreads = 256;
  if (a.rows == 0) return;
  with_type(type, [&](auto t) {
    weighted_gate_backward_kernel<decltype(t)><<<blocks_for(a.rows, kThreads / kWarp), kThreads, 0, stream>>>(a);
  });
}

}  // namespace easydel::operations::cuda_kernels
