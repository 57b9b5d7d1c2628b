// A convolution of each channel with its own last few values, and its gradients. A thread has four channels of a strip
// of tokens, and keeps the values that its next token reads too.
#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kThreads = 128, kEach = 4, kBatch = 4;  // kEach channels; loads of kBatch tokens are under way at once
constexpr int64_t kForwardStrip = 16, kBackwardStrip = 64;

template <class T>
struct alignas(kEach * sizeof(T)) Few {
  T values[kEach];
};

struct Channels {
  float values[kEach];
};

template <class T>
__device__ inline Channels load(const T* from, bool exists) {
  Channels out{};
  if (!exists) return out;
  const Few<T> few = *reinterpret_cast<const Few<T>*>(from);
#pragma unroll
  for (int e = 0; e < kEach; ++e) out.values[e] = wide(few.values[e]);
  return out;
}

template <class T>
__device__ inline void store(T* to, const Channels& x) {
  Few<T> few;
#pragma unroll
  for (int e = 0; e < kEach; ++e) few.values[e] = narrow<T>(x.values[e]);
  *reinterpret_cast<Few<T>*>(to) = few;
}

// Which strip and which channels a thread has.
struct Place {
  int64_t row, begin, end, channel, part;  // part counts strips of all rows
  bool exists;
};
__device__ inline Place place_of(const CausalConv& a, int64_t strip) {
  const int64_t packs = a.channels / kEach, strips = (a.tokens + strip - 1) / strip;
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x, part = index / packs,
                begin = part % strips * strip;
  return {part / strips, begin, min(begin + strip, a.tokens), index % packs * kEach, part, part < a.batch * strips};
}

__device__ inline int64_t run_at(const CausalConv& a, int64_t row, int64_t token) {
  return a.runs && token >= 0 && token < a.tokens ? a.runs[row * a.tokens + token] : -1;
}

template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads) causal_conv_kernel(CausalConv a) {
  const Place p = place_of(a, kForwardStrip);
  if (!p.exists) return;
  const T* x = static_cast<const T*>(a.x) + p.row * a.x_batch + p.channel;
  T* y = static_cast<T*>(a.y) + p.row * a.tokens * a.channels + p.channel;
  Channels weight[kTaps], seen[kTaps - 1 + kBatch];
  int64_t runs[kTaps - 1 + kBatch];
#pragma unroll
  for (int k = 0; k < kTaps; ++k) weight[k] = load(a.weight + k * a.channels + p.channel, true);
  const Channels bias = load(a.bias + p.channel, a.bias != nullptr);
#pragma unroll
  for (int j = 0; j + 1 < kTaps; ++j) {
    const int64_t token = p.begin - (kTaps - 1) + j;
    seen[j] = load(x + token * a.x_token, token >= 0);
    runs[j] = run_at(a, p.row, token);
  }
  for (int64_t first = p.begin; first < p.end; first += kBatch) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      seen[kTaps - 1 + j] = load(x + (first + j) * a.x_token, first + j < p.end);
      runs[kTaps - 1 + j] = run_at(a, p.row, first + j);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (first + j >= p.end) break;
      Channels sum = bias;
#pragma unroll
      for (int k = 0; k < kTaps; ++k) {
        if (runs[j + k] != runs[j + kTaps - 1]) continue;
#pragma unroll
        for (int e = 0; e < kEach; ++e) sum.values[e] += seen[j + k].values[e] * weight[k].values[e];
      }
      store(y + (first + j) * a.channels, sum);
    }
#pragma unroll
    for (int j = 0; j + 1 < kTaps; ++j) seen[j] = seen[j + kBatch], runs[j] = runs[j + kBatch];
  }
}

template <class T, int kTaps>
__global__ void __launch_bounds__(kThreads) causal_conv_backward_kernel(CausalConv a) {
  const Place p = place_of(a, kBackwardStrip);
  if (!p.exists) return;
  const T* x = static_cast<const T*>(a.x) + p.row * a.x_batch + p.channel;
  const int64_t dense = p.row * a.tokens * a.channels + p.channel;
  const T* d_y = static_cast<const T*>(a.d_y) + dense;
  T* d_x = static_cast<T*>(a.y) + dense;
  // Tokens behind the first of a batch: of x those that it reads, of d_y those that read it.
  Channels weight[kTaps], d_weight[kTaps] = {}, d_bias{}, seen[kTaps - 1 + kBatch], later[kTaps - 1 + kBatch];
  int64_t runs[2 * (kTaps - 1) + kBatch];  // from the first of `seen` to the last of `later`
#pragma unroll
  for (int k = 0; k < kTaps; ++k) weight[k] = load(a.weight + k * a.channels + p.channel, true);
#pragma unroll
  for (int j = 0; j + 1 < kTaps; ++j) {
    const int64_t token = p.begin - (kTaps - 1) + j;
    seen[j] = load(x + token * a.x_token, token >= 0);
    later[j] = load(d_y + (p.begin + j) * a.channels, p.begin + j < a.tokens);
  }
#pragma unroll
  for (int j = 0; j < 2 * (kTaps - 1); ++j) runs[j] = run_at(a, p.row, p.begin - (kTaps - 1) + j);
  for (int64_t first = p.begin; first < p.end; first += kBatch) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int64_t behind = first + kTaps - 1 + j;
      seen[kTaps - 1 + j] = load(x + (first + j) * a.x_token, first + j < a.tokens);
      later[kTaps - 1 + j] = load(d_y + behind * a.channels, behind < a.tokens);
      runs[2 * (kTaps - 1) + j] = run_at(a, p.row, behind);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (first + j >= p.end) break;
      Channels sum{};
      const int64_t run = runs[j + kTaps - 1];
#pragma unroll
      for (int k = 0; k < kTaps; ++k) {
        const int away = kTaps - 1 - k;  // from a token to the one that reads it with this tap
        if (runs[j + kTaps - 1 + away] == run && first + j + away < a.tokens) {
#pragma unroll
          for (int e = 0; e < kEach; ++e) sum.values[e] += later[j + away].values[e] * weight[k].values[e];
        }
        if (runs[j + k] == run) {
#pragma unroll
          for (int e = 0; e < kEach; ++e) d_weight[k].values[e] += later[j].values[e] * seen[j + k].values[e];
        }
      }
#pragma unroll
      for (int e = 0; e < kEach; ++e) d_bias.values[e] += later[j].values[e];
      store(d_x + (first + j) * a.channels, sum);
    }
#pragma unroll
    for (int j = 0; j + 1 < kTaps; ++j) seen[j] = seen[j + kBatch], later[j] = later[j + kBatch];
#pragma unroll
    for (int j = 0; j < 2 * (kTaps - 1); ++j) runs[j] = runs[j + kBatch];
  }
  float* sums = a.d_weight + p.part * (kTaps + 1) * a.channels + p.channel;
#pragma unroll
  for (int k = 0; k < kTaps; ++k) store(sums + k * a.channels, d_weight[k]);
  store(sums + kTaps * a.channels, d_bias);
}

template <class F>
void with_taps(int taps, const F& f) {
  switch (taps) {
    case 2: return f(std::integral_constant<int, 2>());
    case 3: return f(std::integral_constant<int, 3>());
    case 4: return f(std::integral_constant<int, 4>());
    default: return;
  }
}

unsigned conv_blocks(const CausalConv& a, int64_t strip) {
  return blocks_for(a.batch * ((a.tokens + strip - 1) / strip) * (a.channels / kEach), kThreads);
}

}  // namespace

bool can_causal_conv(int64_t taps, int64_t channels) { return taps >= 2 && taps <= 4 && channels % kEach == 0; }

int64_t causal_conv_parts(int64_t batch, int64_t tokens) {
  return batch * ((tokens + kBackwardStrip - 1) / kBackwardStrip);
}

void causal_conv(Element type, const CausalConv& a, Stream stream) {
  with_type(type, [&](auto t) {
    with_taps(a.taps, [&](auto taps) {
      causal_conv_kernel<decltype(t), taps><<<conv_blocks(a, kForwardStrip), kThreads, 0, stream>>>(a);
    });
  });
}

void causal_conv_backward(Element type, const CausalConv& a, Stream stream) {
  with_type(type, [&](auto t) {
    with_taps(a.taps, [&](auto taps) {
      causal_conv_backward_kernel<decltype(t), taps><<<conv_blocks(a, kBackwardStrip), kThreads, 0, stream>>>(a);
    });
  });
}

}  // namespace easydel::operations::cuda_kernels
