#include "easydel/operations/kernels/cuda/cuda_kernels.h"

#include <initializer_list>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/launch_after.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

template <class T>
__global__ void rms_norm_kernel(RmsNorm a) {
  __shared__ float sums[kWarp];
  next_may_start();
  wait_for_previous();
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
  next_may_start();
  wait_for_previous();
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

// The same for rows of at most a warp's packs: a warp for each.
constexpr int kRowWarps = 8;
template <class T>
__global__ void __launch_bounds__(kRowWarps* kWarp) rms_norm_warp_kernel(RmsNorm a) {
  using P = Pack<T>;
  const int packs = static_cast<int>(a.width / P::kCount), lane = threadIdx.x % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kRowWarps + threadIdx.x / kWarp;
  const bool mine = row < a.rows && lane < packs;
  next_may_start();
  wait_for_previous();
  P x{}, weight{}, y{};
  if (mine) {
    x = P::at(a.x, row * packs + lane);
    weight = P::at(a.weight, lane);
  }
  float squares = 0;
  for (int i = 0; i < P::kCount; ++i) squares += x.get(i) * x.get(i);
  const float rstd = rsqrtf(warp_sum(squares) / static_cast<float>(a.width) + a.eps);
  if (!mine) return;
  if (a.rstd && lane == 0) a.rstd[row] = rstd;
  for (int i = 0; i < P::kCount; ++i) {
    float value = x.get(i) * rstd;
    if (a.cast_first) value = wide(narrow<T>(value));
    y.set(i, value * (weight.get(i) + a.offset));
  }
  static_cast<uint4*>(a.y)[row * packs + lane] = y.bits;
}

// Each thread rotates one pair.
template <class T>
__global__ void rotary_kernel(Rotary a) {
  next_may_start();
  wait_for_previous();
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

template <class T>
__device__ inline void normalize(Pack<T>& x, const RowNorm& norm, int pack, float rstd) {
  const Pack<T> weight = Pack<T>::at(norm.weight, pack);
  for (int e = 0; e < Pack<T>::kCount; ++e) {
    float value = x.get(e) * rstd;
    if (norm.cast_first) value = wide(narrow<T>(value));
    x.set(e, value * (weight.get(e) + norm.offset));
  }
}

// The same in packs, a block for a token: a thread rotates a pack of a head's first half with the one half a head on.
template <class T>
__global__ void rotary_pack_kernel(Rotary a) {
  using P = Pack<T>;
  next_may_start();
  wait_for_previous();
  const int64_t token = blockIdx.x % a.tokens, row = blockIdx.x / a.tokens;
  const int32_t turned = a.half / P::kCount, rest = (a.head_size - 2 * a.half) / P::kCount;
  const int32_t items = (a.q.heads + a.k.heads) * (turned + rest);
  const int64_t table = row * a.table_batch + token * a.table_token;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < items; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t pack = i % (turned + rest);
    int32_t head = i / (turned + rest);
    const Rotary::Heads& h = head < a.q.heads ? a.q : a.k;
    if (head >= a.q.heads) head -= a.q.heads;
    const T* x = static_cast<const T*>(h.x) + row * h.batch_stride + token * h.token_stride + head * h.head_stride;
    T* y = static_cast<T*>(h.y) + (blockIdx.x * int64_t{h.heads} + head) * a.head_size;
    if (pack >= turned) {  // copied
      const int64_t at = 2 * turned + pack - turned;
      reinterpret_cast<uint4*>(y)[at] = P::at(x, at).bits;
      continue;
    }
    P first = P::at(x, pack), second = P::at(x, turned + pack);
    if (h.norm.weight) {
      // Neighbouring lanes, a power of two of them, have a head.
      const unsigned lanes = (turned == kWarp ? ~0u : (1u << turned) - 1) << (threadIdx.x % kWarp / turned * turned);
      float squares = 0;
      for (int e = 0; e < P::kCount; ++e) squares += first.get(e) * first.get(e) + second.get(e) * second.get(e);
      for (int step = 1; step < turned; step *= 2) squares += __shfl_xor_sync(lanes, squares, step);
      const float rstd = rsqrtf(squares / static_cast<float>(a.head_size) + h.norm.eps);
      normalize(first, h.norm, pack, rstd), normalize(second, h.norm, turned + pack, rstd);
    }
    P low, high;
    const float4* cos = reinterpret_cast<const float4*>(a.cos + table + pack * P::kCount);
    const float4* sin = reinterpret_cast<const float4*>(a.sin + table + pack * P::kCount);
    for (int quarter = 0; quarter < P::kCount / 4; ++quarter) {
      const float4 c4 = cos[quarter], s4 = sin[quarter];
      const float c[4] = {c4.x, c4.y, c4.z, c4.w}, s[4] = {s4.x, s4.y, s4.z, s4.w};
      for (int e = 0; e < 4; ++e) {
        const int at = 4 * quarter + e;
        const float turn = a.inverse ? -s[e] : s[e];
        low.set(at, first.get(at) * c[e] - second.get(at) * turn);
        high.set(at, second.get(at) * c[e] + first.get(at) * turn);
      }
    }
    reinterpret_cast<uint4*>(y)[pack] = low.bits;
    reinterpret_cast<uint4*>(y)[turned + pack] = high.bits;
  }
}

template <class T>
__device__ inline float gated(const Activated& activated, float up) {
  return wide(narrow<T>(activated.value)) * up;
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
  const auto one = [&](float g, float u) { return gated<T>(activate(g, a.gelu), u); };
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
    Pack<T> d_g, d_u, y;
    for (int j = 0; j < kCount; ++j) {
      const Activated act = activate(g.get(j), a.gelu);
      d_g.set(j, d.get(j) * u.get(j) * act.slope);
      d_u.set(j, d.get(j) * act.value);
      y.set(j, gated<T>(act, u.get(j)));
    }
    *reinterpret_cast<uint4*>(d_gate) = d_g.bits;
    *reinterpret_cast<uint4*>(d_up) = d_u.bits;
    if (a.y) static_cast<uint4*>(a.y)[index] = y.bits;
  } else {
    const Activated act = activate(wide(*gate), a.gelu);
    const float d = wide(*d_y);
    if (a.y) static_cast<T*>(a.y)[index] = narrow<T>(gated<T>(act, wide(*up)));
    *d_gate = narrow<T>(d * wide(*up) * act.slope);
    *d_up = narrow<T>(d * act.value);
  }
}

}  // namespace

void rms_norm(Element type, const RmsNorm& args, Stream stream) {
  if (args.rows == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const auto rows = static_cast<unsigned>(args.rows);
    const int64_t packs = args.width / Pack<T>::kCount;
    const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    const bool is_packed =
        args.width > 0 && args.width % Pack<T>::kCount == 0 && aligned(args.x) && aligned(args.weight);
    if (is_packed && packs <= kWarp) {
      launch_after(rms_norm_warp_kernel<T>, dim3(blocks_for(args.rows, kRowWarps)), kRowWarps * kWarp, 0, stream, args);
    } else if (is_packed && packs <= 1024) {
      const auto threads = static_cast<int>((packs + kWarp - 1) / kWarp * kWarp);
      launch_after(rms_norm_pack_kernel<T>, dim3(rows), threads, 0, stream, args);
    } else {
      const auto threads = static_cast<int>(std::clamp<int64_t>((args.width + 7) / 8 / kWarp * kWarp, kWarp, 1024));
      launch_after(rms_norm_kernel<T>, dim3(rows), threads, 0, stream, args);
    }
  });
}

namespace {

template <class T>
bool packs(std::initializer_list<const void*> pointers, std::initializer_list<int64_t> sizes) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }) &&
         std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n % Pack<T>::kCount == 0; });
}

template <class T>
bool rotates_packs(const Rotary& a) {
  const auto heads = [](const Rotary::Heads& h) {
    return h.heads == 0 || packs<T>({h.x, h.y}, {h.batch_stride, h.token_stride, h.head_stride});
  };
  return !a.interleaved && heads(a.q) && heads(a.k) && packs<T>({a.cos, a.sin}, {a.half, a.head_size}) &&
         a.table_batch % 4 == 0 && a.table_token % 4 == 0;
}

}  // namespace

bool can_norm_heads(Element type, const Rotary& a) {
  bool can = false;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const int32_t lanes = a.half / Pack<T>::kCount;
    can = rotates_packs<T>(a) && 2 * a.half == a.head_size && lanes <= kWarp && (lanes & (lanes - 1)) == 0 &&
          packs<T>({a.q.norm.weight, a.k.norm.weight}, {});
  });
  return can;
}

void rotary(Element type, const Rotary& args, Stream stream) {
  const int64_t tokens = args.batch * args.tokens, heads = args.q.heads + args.k.heads;
  const int64_t items = tokens * heads * (args.head_size - args.half);
  if (items == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (rotates_packs<T>(args)) {
      const int64_t each = heads * (args.head_size - args.half) / Pack<T>::kCount;
      const auto threads = static_cast<int>(std::clamp<int64_t>((each + kWarp - 1) / kWarp * kWarp, kWarp, 256));
      launch_after(rotary_pack_kernel<T>, dim3(static_cast<unsigned>(tokens)), threads, 0, stream, args);
    } else {
      launch_after(rotary_kernel<T>, dim3(blocks_for(items, 256)), 256, 0, stream, args);
    }
  });
}

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
    if (packs<T>({a.gate, a.up, a.d_y, a.y, a.d_gate, a.d_up}, {a.gate_row, a.up_row, a.d_row, a.width})) {
      gate_backward_kernel<T, true><<<blocks_for(items / Pack<T>::kCount, 256), 256, 0, stream>>>(a);
    } else {
      gate_backward_kernel<T, false><<<blocks_for(items, 256), 256, 0, stream>>>(a);
    }
  });
}

}  // namespace easydel::operations::cuda_kernels
