#include "easydel/operations/kernels/cuda/cuda_kernels.h"

#include <initializer_list>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

__device__ inline float block_sum(float value, float* sums) {
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_sum(threadIdx.x % kWarp < blockDim.x / kWarp ? sums[threadIdx.x % kWarp] : 0.0f);
}

template <class T>
__global__ void rms_norm_kernel(RmsNorm a) {
  __shared__ float sums[kWarp];
  const T* x = static_cast<const T*>(a.x) + blockIdx.x * a.width;
  const T* weight = static_cast<const T*>(a.weight);
  T* y = static_cast<T*>(a.y) + blockIdx.x * a.width;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    const float value = wide(x[i]);
    squares += value * value;
  }
  const float rstd = rsqrtf(block_sum(squares, sums) / static_cast<float>(a.width) + a.eps);
  if (a.rstd && threadIdx.x == 0) a.rstd[blockIdx.x] = rstd;
  for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
    float value = wide(x[i]) * rstd;
    if (a.cast_first) value = wide(narrow<T>(value));
    y[i] = narrow<T>(value * (wide(weight[i]) + a.offset));
  }
}

// The same for rows with at most one pack per thread: read once and kept in registers.
template <class T>
__global__ void rms_norm_pack_kernel(RmsNorm a) {
  __shared__ float sums[kWarp];
  using P = Pack<T>;
  const int64_t packs = a.width / P::kCount;
  const bool mine = threadIdx.x < packs;
  P x{}, weight{}, y{};
  if (mine) {
    x = P::at(a.x, blockIdx.x * packs + threadIdx.x);
    weight = P::at(a.weight, threadIdx.x);
  }
  float squares = 0;
  for (int i = 0; i < P::kCount; ++i) squares += x.get(i) * x.get(i);
  const float rstd = rsqrtf(block_sum(squares, sums) / static_cast<float>(a.width) + a.eps);
  if (a.rstd && threadIdx.x == 0) a.rstd[blockIdx.x] = rstd;
  if (!mine) return;
  for (int i = 0; i < P::kCount; ++i) {
    float value = x.get(i) * rstd;
    if (a.cast_first) value = wide(narrow<T>(value));
    y.set(i, value * (weight.get(i) + a.offset));
  }
  static_cast<uint4*>(a.y)[blockIdx.x * packs + threadIdx.x] = y.bits;
}

// Each warp computes one row of a matrix, with all vectors.
template <class T, int kVectors>
__global__ void gemv_kernel(Gemv a) {
  using P = Pack<T>;
  const int lane = threadIdx.x % kWarp;
  int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  int m = 0;
  while (m < a.count && row >= a.matrices[m].rows) row -= a.matrices[m++].rows;
  if (m == a.count) return;
  const Gemv::Matrix& matrix = a.matrices[m];
  const int64_t packs = a.width / P::kCount;
  float sums[kVectors] = {};
#pragma unroll 4
  for (int64_t i = lane; i < packs; i += kWarp) {
    const P w = P::at(matrix.weight, row * packs + i);
    for (int v = 0; v < kVectors; ++v) {
      const P x = P::at(a.x, v * packs + i);
      for (int j = 0; j < P::kCount; ++j) sums[v] += w.get(j) * x.get(j);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    float sum = warp_sum(sums[v]);
    if (lane != 0) continue;
    if (matrix.bias) sum += wide(static_cast<const T*>(matrix.bias)[row]);
    static_cast<T*>(matrix.y)[v * matrix.rows + row] = narrow<T>(sum);
  }
}

// Each thread rotates one pair.
template <class T>
__global__ void rotary_kernel(Rotary a) {
  const int32_t heads = a.q.heads + a.k.heads, pairs = a.half + (a.head_size - 2 * a.half);  // the rest is copied
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= a.batch * a.tokens * heads * pairs) return;
  const auto pair = static_cast<int32_t>(index % pairs);
  auto head = static_cast<int32_t>(index / pairs % heads);
  const int64_t token = index / pairs / heads % a.tokens, row = index / pairs / heads / a.tokens;
  const Rotary::Heads& h = head < a.q.heads ? a.q : a.k;
  if (head >= a.q.heads) head -= a.q.heads;
  const T* x = static_cast<const T*>(h.x) + row * h.batch_stride + token * h.token_stride + head * h.head_stride;
  T* y = static_cast<T*>(h.y) + ((row * a.tokens + token) * h.heads + head) * a.head_size;
  if (pair >= a.half) {
    y[pair + a.half] = x[pair + a.half];
    return;
  }
  const int64_t at = row * a.table_batch + token * a.table_token + pair;
  const float c = a.cos[at], s = a.inverse ? -a.sin[at] : a.sin[at];
  const int32_t i = a.interleaved ? 2 * pair : pair, j = a.interleaved ? 2 * pair + 1 : pair + a.half;
  const float first = wide(x[i]), second = wide(x[j]);
  y[i] = narrow<T>(first * c - second * s);
  y[j] = narrow<T>(second * c + first * s);
}

// kPacked: sixteen bytes at a time; `index` counts these.
template <class T, bool kPacked>
__global__ void gate_kernel(Gate a) {
  constexpr int kCount = kPacked ? Pack<T>::kCount : 1;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, width = a.width / kCount;
  if (index >= a.rows * width) return;
  const int64_t row = index / width, i = index % width * kCount;
  const T* gate = static_cast<const T*>(a.gate) + row * a.gate_row + i;
  const T* up = static_cast<const T*>(a.up) + row * a.up_row + i;
  const auto one = [&](float g, float u) { return wide(narrow<T>(activate(g, a.gelu).value)) * u; };
  if constexpr (kPacked) {
    const Pack<T> g = Pack<T>::at(gate, 0), u = Pack<T>::at(up, 0);
    Pack<T> y;
    for (int j = 0; j < kCount; ++j) y.set(j, one(g.get(j), u.get(j)));
    static_cast<uint4*>(a.y)[index] = y.bits;
  } else {
    static_cast<T*>(a.y)[index] = narrow<T>(one(wide(*gate), wide(*up)));
  }
}

template <class T, bool kPacked>
__global__ void gate_backward_kernel(GateBackward a) {
  constexpr int kCount = kPacked ? Pack<T>::kCount : 1;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, width = a.width / kCount;
  if (index >= a.rows * width) return;
  const int64_t row = index / width, i = index % width * kCount;
  const T* gate = static_cast<const T*>(a.gate) + row * a.gate_row + i;
  const T* up = static_cast<const T*>(a.up) + row * a.up_row + i;
  const T* d_y = static_cast<const T*>(a.d_y) + row * a.width + i;
  T* d_gate = static_cast<T*>(a.d_gate) + row * a.d_row + i;
  T* d_up = static_cast<T*>(a.d_up) + row * a.d_row + i;
  if constexpr (kPacked) {
    const Pack<T> g = Pack<T>::at(gate, 0), u = Pack<T>::at(up, 0), d = Pack<T>::at(d_y, 0);
    Pack<T> d_g, d_u;
    for (int j = 0; j < kCount; ++j) {
      const Activated act = activate(g.get(j), a.gelu);
      d_g.set(j, d.get(j) * u.get(j) * act.slope);
      d_u.set(j, d.get(j) * act.value);
    }
    *reinterpret_cast<uint4*>(d_gate) = d_g.bits;
    *reinterpret_cast<uint4*>(d_up) = d_u.bits;
  } else {
    const Activated act = activate(wide(*gate), a.gelu);
    const float d = wide(*d_y);
    *d_gate = narrow<T>(d * wide(*up) * act.slope);
    *d_up = narrow<T>(d * act.value);
  }
}

// A running maximum and sum of exponentials, which can be merged.
struct MaxSum {
  float maximum, sum;
};
__device__ inline MaxSum merge(MaxSum a, MaxSum b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  if (maximum == -INFINITY) return {maximum, 0.0f};
  return {maximum, a.sum * __expf(a.maximum - maximum) + b.sum * __expf(b.maximum - maximum)};
}

constexpr int kRowThreads = 1024;

// One block for a row. The row is read twice and written once.
template <class D>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_kernel(CrossEntropy a) {
  __shared__ float maxima[kWarp], sums[kWarp], totals[kWarp];
  const int64_t row = blockIdx.x, label = a.labels[row];
  float* x = a.logits + row * a.width;
  const bool valid = label != a.ignore_index;
  const auto logit = [&](float raw) {
    const float scaled = raw * a.logit_scale;
    return a.logit_softcap != 0.0f ? tanhf(scaled / a.logit_softcap) * a.logit_softcap : scaled;
  };
  const bool packed = a.width % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.logits) % 16 == 0;
  const int64_t packs = packed ? a.width / 4 : 0;
  MaxSum seen{-INFINITY, 0.0f};
  float total = 0.0f;
  const auto take = [&](float raw) {
    const float y = logit(raw);
    if (y > seen.maximum) {
      seen.sum = seen.sum * __expf(seen.maximum - y) + 1.0f;
      seen.maximum = y;
    } else {
      seen.sum += __expf(y - seen.maximum);
    }
    total += y;
  };
  for (int64_t i = threadIdx.x; i < packs; i += kRowThreads) {
    const float4 four = reinterpret_cast<const float4*>(x)[i];
    take(four.x), take(four.y), take(four.z), take(four.w);
  }
  for (int64_t i = packs * 4 + threadIdx.x; i < a.width; i += kRowThreads) take(x[i]);
  for (int step = kWarp / 2; step > 0; step /= 2) {
    seen =
        merge(seen, {__shfl_xor_sync(0xffffffffu, seen.maximum, step), __shfl_xor_sync(0xffffffffu, seen.sum, step)});
  }
  total = warp_sum(total);
  if (threadIdx.x % kWarp == 0) {
    maxima[threadIdx.x / kWarp] = seen.maximum;
    sums[threadIdx.x / kWarp] = seen.sum;
    totals[threadIdx.x / kWarp] = total;
  }
  const float picked = valid ? logit(x[label]) : 0.0f;
  __syncthreads();
  seen = {maxima[threadIdx.x % kWarp], sums[threadIdx.x % kWarp]};
  for (int step = kWarp / 2; step > 0; step /= 2) {
    seen =
        merge(seen, {__shfl_xor_sync(0xffffffffu, seen.maximum, step), __shfl_xor_sync(0xffffffffu, seen.sum, step)});
  }
  total = warp_sum(totals[threadIdx.x % kWarp]);
  const float lse = seen.maximum + logf(seen.sum), width = static_cast<float>(a.width);
  if (threadIdx.x == 0) {
    const float nll = (1.0f - a.label_smoothing) * (lse - picked) + a.label_smoothing * (lse - total / width);
    a.nll[row] = valid ? nll : 0.0f;
    a.lse[row] = valid ? lse : 0.0f;
    a.correct[row] = valid && picked >= seen.maximum;
  }
  if (!a.scale) return;
  __syncthreads();  // all threads have read the label's logit
  const float weight = valid ? a.scale[row] : 0.0f;
  const float times = weight * (1.0f + 2.0f * a.z_loss * lse), minus = weight * a.label_smoothing / width;
  const auto slope = [&](float raw, int64_t i) {
    const float y = logit(raw);
    float d = __expf(y - lse) * times - minus;
    if (i == label) d += weight * (a.label_smoothing - 1.0f);
    if (a.logit_softcap != 0.0f) d *= 1.0f - (y / a.logit_softcap) * (y / a.logit_softcap);
    return d * a.logit_scale;
  };
  struct alignas(4 * sizeof(D)) Four {
    D values[4];
  };
  D* d_x = static_cast<D*>(a.d_logits) + row * a.width;
  for (int64_t i = threadIdx.x; i < packs; i += kRowThreads) {
    const float4 four = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<Four*>(d_x)[i] = {{narrow<D>(slope(four.x, 4 * i)), narrow<D>(slope(four.y, 4 * i + 1)),
                                        narrow<D>(slope(four.z, 4 * i + 2)), narrow<D>(slope(four.w, 4 * i + 3))}};
  }
  for (int64_t i = packs * 4 + threadIdx.x; i < a.width; i += kRowThreads) d_x[i] = narrow<D>(slope(x[i], i));
}

// Keys are split over blocks; a warp processes one key at a time, with all queries that share it.
constexpr int kWarps = 4, kSplitKeys = 64, kMaxShared = 16, kMaxPerLane = 8;

__host__ __device__ inline int64_t split_count(int64_t keys) { return (keys + kSplitKeys - 1) / kSplitKeys; }

// The partial result of a warp or a split for one query: maximum, sum, and head_size sums of weighted values.
template <class T, int kShared, int kLane>
__global__ void attend_kernel(AttendToCache a) {
  const int row = blockIdx.z, head = blockIdx.y, split = blockIdx.x;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t slot = *a.slot, place = slot % a.capacity;
  const int64_t first = max(static_cast<int64_t>(0), a.starts ? a.starts[row] : 0);
  const int64_t oldest = max(max(first, slot + 1 - a.capacity), a.window > 0 ? slot + 1 - a.window : 0);
  const int64_t cache_at = (static_cast<int64_t>(row) * a.kv_heads + head) * a.capacity * a.head_size;
  T* k_cache = static_cast<T*>(a.k_cache) + cache_at;
  T* v_cache = static_cast<T*>(a.v_cache) + cache_at;
  const T* k_new = static_cast<const T*>(a.k) + row * a.k_batch + head * a.k_head;
  const T* v_new = static_cast<const T*>(a.v) + row * a.v_batch + head * a.v_head;

  float q[kShared][kLane], out[kShared][kLane], maximum[kShared], sum[kShared];
  for (int g = 0; g < kShared; ++g) {
    maximum[g] = -INFINITY;
    sum[g] = 0;
    const T* from = static_cast<const T*>(a.q) + row * a.q_batch + (head * kShared + g) * a.q_head;
    for (int i = 0; i < kLane; ++i) {
      const int d = i * kWarp + lane;
      q[g][i] = d < a.head_size ? wide(from[d]) * a.scale : 0.0f;
      out[g][i] = 0;
    }
  }
  const int64_t begin = static_cast<int64_t>(split) * kSplitKeys;
  const int64_t end = min(min(a.keys, a.capacity), begin + kSplitKeys);
  for (int64_t at = begin + warp; at < end; at += kWarps) {
    // The last slot up to this one that maps to this index of the ring.
    const int64_t back = (place - at + a.capacity) % a.capacity;
    const bool is_new = back == 0;
    if (slot - back < oldest) continue;
    const T* k = is_new ? k_new : k_cache + at * a.head_size;
    const T* v = is_new ? v_new : v_cache + at * a.head_size;
    float key[kLane], value[kLane];
    for (int i = 0; i < kLane; ++i) {
      const int d = i * kWarp + lane;
      key[i] = d < a.head_size ? wide(k[d]) : 0.0f;
      value[i] = d < a.head_size ? wide(v[d]) : 0.0f;
    }
    if (is_new) {
      for (int i = 0; i < kLane; ++i) {
        const int d = i * kWarp + lane;
        if (d < a.head_size) {
          k_cache[at * a.head_size + d] = k[d];
          v_cache[at * a.head_size + d] = v[d];
        }
      }
    }
    for (int g = 0; g < kShared; ++g) {
      float score = 0;
      for (int i = 0; i < kLane; ++i) score += q[g][i] * key[i];
      score = warp_sum(score);
      if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
      const float now = fmaxf(maximum[g], score), keep = __expf(maximum[g] - now), weight = __expf(score - now);
      maximum[g] = now;
      sum[g] = sum[g] * keep + weight;
      for (int i = 0; i < kLane; ++i) out[g][i] = out[g][i] * keep + weight * value[i];
    }
  }

  // The warps of a block, then one record for the split.
  __shared__ float maxima[kWarps][kShared], sums[kWarps][kShared], outs[kWarps][kLane * kWarp];
  float* record = a.scratch + ((static_cast<int64_t>(row) * a.kv_heads + head) * split_count(a.keys) + split) *
                                  kShared * (a.head_size + 2);
  if (lane == 0) {
    for (int g = 0; g < kShared; ++g) maxima[warp][g] = maximum[g], sums[warp][g] = sum[g];
  }
  __syncthreads();
  for (int g = 0; g < kShared; ++g) {
    float largest = -INFINITY, total = 0;
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, maxima[w][g]);
    for (int w = 0; w < kWarps; ++w) {
      if (maxima[w][g] > -INFINITY) total += sums[w][g] * __expf(maxima[w][g] - largest);
    }
    const float weight = maximum[g] > -INFINITY ? __expf(maximum[g] - largest) : 0.0f;
    for (int i = 0; i < kLane; ++i) outs[warp][i * kWarp + lane] = out[g][i] * weight;
    __syncthreads();
    float* to = record + g * (a.head_size + 2);
    for (int d = threadIdx.x; d < a.head_size; d += kWarps * kWarp) {
      float value = 0;
      for (int w = 0; w < kWarps; ++w) value += outs[w][d];
      to[2 + d] = value;
    }
    if (threadIdx.x == 0) to[0] = largest, to[1] = total;
    __syncthreads();
  }
}

template <class T>
__global__ void merge_kernel(AttendToCache a) {
  const int64_t splits = split_count(a.keys), size = a.head_size + 2;
  const int head = blockIdx.x, row = blockIdx.y, kv = head / a.shared, g = head % a.shared;
  const float* records =
      a.scratch + (static_cast<int64_t>(row) * a.kv_heads + kv) * splits * a.shared * size + g * size;
  float largest = -INFINITY, total = 0;
  for (int64_t s = 0; s < splits; ++s) largest = fmaxf(largest, records[s * a.shared * size]);
  for (int64_t s = 0; s < splits; ++s) {
    const float* record = records + s * a.shared * size;
    if (record[0] > -INFINITY) total += record[1] * __expf(record[0] - largest);
  }
  T* out = static_cast<T*>(a.out) + (static_cast<int64_t>(row) * a.kv_heads * a.shared + head) * a.head_size;
  for (int d = threadIdx.x; d < a.head_size; d += blockDim.x) {
    float value = 0;
    for (int64_t s = 0; s < splits; ++s) {
      const float* record = records + s * a.shared * size;
      if (record[0] > -INFINITY) value += record[2 + d] * __expf(record[0] - largest);
    }
    out[d] = narrow<T>(total > 0 ? value / total : 0.0f);
  }
}

template <class T, int kShared>
void attend_with(const AttendToCache& a, Stream stream) {
  const dim3 grid(static_cast<unsigned>(split_count(a.keys)), a.kv_heads, a.batch);
  const int threads = kWarps * kWarp;
  if (a.head_size <= 64) return attend_kernel<T, kShared, 2><<<grid, threads, 0, stream>>>(a);
  if (a.head_size <= 128) return attend_kernel<T, kShared, 4><<<grid, threads, 0, stream>>>(a);
  attend_kernel<T, kShared, kMaxPerLane><<<grid, threads, 0, stream>>>(a);
}

}  // namespace

void rms_norm(Element type, const RmsNorm& args, Stream stream) {
  if (args.rows == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const auto rows = static_cast<unsigned>(args.rows);
    const int64_t packs = args.width / Pack<T>::kCount;
    const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    if (args.width % Pack<T>::kCount == 0 && packs <= 1024 && aligned(args.x) && aligned(args.weight)) {
      const auto threads = static_cast<int>((packs + kWarp - 1) / kWarp * kWarp);
      rms_norm_pack_kernel<T><<<rows, threads, 0, stream>>>(args);
    } else {
      const auto threads = static_cast<int>(std::clamp<int64_t>((args.width + 7) / 8 / kWarp * kWarp, kWarp, 1024));
      rms_norm_kernel<T><<<rows, threads, 0, stream>>>(args);
    }
  });
}

bool can_gemv(Element type, int64_t width, int64_t vectors) {
  return vectors >= 1 && vectors <= 4 && width % (type == Element::Float32 ? 4 : 8) == 0;
}

void gemv(Element type, const Gemv& args, Stream stream) {
  int64_t rows = 0;
  for (int m = 0; m < args.count; ++m) rows += args.matrices[m].rows;
  constexpr int kThreads = 128;
  const unsigned blocks = blocks_for(rows, kThreads / kWarp);
  if (rows == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    switch (args.vectors) {
      case 1: gemv_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(args); break;
      case 2: gemv_kernel<T, 2><<<blocks, kThreads, 0, stream>>>(args); break;
      case 3: gemv_kernel<T, 3><<<blocks, kThreads, 0, stream>>>(args); break;
      default: gemv_kernel<T, 4><<<blocks, kThreads, 0, stream>>>(args); break;
    }
  });
}

void rotary(Element type, const Rotary& args, Stream stream) {
  const int64_t items = args.batch * args.tokens * (args.q.heads + args.k.heads) * (args.head_size - args.half);
  if (items == 0) return;
  with_type(type, [&](auto t) { rotary_kernel<decltype(t)><<<blocks_for(items, 256), 256, 0, stream>>>(args); });
}

namespace {

template <class T>
bool packs(std::initializer_list<const void*> pointers, std::initializer_list<int64_t> sizes) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }) &&
         std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n % Pack<T>::kCount == 0; });
}

}  // namespace

void gate(Element type, const Gate& a, Stream stream) {
  const int64_t items = a.rows * a.width;
  if (items == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (packs<T>({a.gate, a.up, a.y}, {a.gate_row, a.up_row, a.width})) {
      gate_kernel<T, true><<<blocks_for(items / Pack<T>::kCount, 256), 256, 0, stream>>>(a);
    } else {
      gate_kernel<T, false><<<blocks_for(items, 256), 256, 0, stream>>>(a);
    }
  });
}

void gate_backward(Element type, const GateBackward& a, Stream stream) {
  const int64_t items = a.rows * a.width;
  if (items == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (packs<T>({a.gate, a.up, a.d_y, a.d_gate, a.d_up}, {a.gate_row, a.up_row, a.d_row, a.width})) {
      gate_backward_kernel<T, true><<<blocks_for(items / Pack<T>::kCount, 256), 256, 0, stream>>>(a);
    } else {
      gate_backward_kernel<T, false><<<blocks_for(items, 256), 256, 0, stream>>>(a);
    }
  });
}

void cross_entropy(Element d_type, const CrossEntropy& given, Stream stream) {
  if (given.rows == 0) return;
  CrossEntropy args = given;
  if (!args.d_logits) args.d_logits = args.logits;
  with_type(given.d_logits ? d_type : Element::Float32, [&](auto d) {
    cross_entropy_kernel<decltype(d)><<<static_cast<unsigned>(args.rows), kRowThreads, 0, stream>>>(args);
  });
}

bool can_attend_to_cache(int64_t shared, int64_t head_size) {
  return head_size <= kWarp * kMaxPerLane && shared <= kMaxShared && (shared & (shared - 1)) == 0;
}

int64_t scratch_floats(const AttendToCache& a) {
  return static_cast<int64_t>(a.batch) * a.kv_heads * a.shared * split_count(a.keys) * (a.head_size + 2);
}

void attend_to_cache(Element type, const AttendToCache& args, Stream stream) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    switch (args.shared) {
      case 1: attend_with<T, 1>(args, stream); break;
      case 2: attend_with<T, 2>(args, stream); break;
      case 4: attend_with<T, 4>(args, stream); break;
      case 8: attend_with<T, 8>(args, stream); break;
      default: attend_with<T, 16>(args, stream); break;
    }
    const dim3 grid(args.kv_heads * args.shared, args.batch);
    merge_kernel<T><<<grid, 64, 0, stream>>>(args);
  });
}

}  // namespace easydel::operations::cuda_kernels
