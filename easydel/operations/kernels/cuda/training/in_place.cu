// Elements in place: AdamW over several tensors in one launch, which reads and writes each number once; scaling.
#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kThreads = 256, kTurns = 4;

struct Updated {
  float param, mu, nu;
};
__device__ inline Updated update(const Adamw& a, float param, float gradient, float mu, float nu) {
  mu = a.b1 * mu + a.one_minus_b1 * gradient;
  nu = a.b2 * nu + a.one_minus_b2 * gradient * gradient;
  const float step = a.step * mu / (sqrtf(nu) * a.nu_scale + a.eps);
  return {param - (step + a.decay * param), mu, nu};  // rounded once
}

// Elements [begin, begin + kThreads * kTurns * pack) of a tensor.
template <class T>
__global__ void __launch_bounds__(kThreads) adamw_kernel(Adamw a) {
  using P = Pack<T>;
  int t = 0;
  while (t + 1 < a.tensors && static_cast<int>(blockIdx.x) >= a.first_block[t + 1]) ++t;
  const int64_t begin = int64_t{static_cast<int>(blockIdx.x) - a.first_block[t]} * kThreads * kTurns * P::kCount;
  T *param = static_cast<T*>(a.param[t]), *mu = static_cast<T*>(a.mu[t]), *nu = static_cast<T*>(a.nu[t]);
  const T* gradient = static_cast<const T*>(a.gradient[t]);
  const int64_t count = a.count[t];
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const bool packed = (address(param) | address(mu) | address(nu) | address(gradient)) % 16 == 0;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int64_t i = begin + (int64_t{turn} * kThreads + threadIdx.x) * P::kCount;
    if (i >= count) return;
    if (packed && i + P::kCount <= count) {
      P p = P::at(param + i, 0), g{load_pack(gradient + i)}, m = P::at(mu + i, 0), n = P::at(nu + i, 0);
#pragma unroll
      for (int e = 0; e < P::kCount; ++e) {
        const Updated u = update(a, p.get(e), g.get(e), m.get(e), n.get(e));
        p.set(e, u.param), m.set(e, u.mu), n.set(e, u.nu);
      }
      *reinterpret_cast<uint4*>(param + i) = p.bits;
      *reinterpret_cast<uint4*>(mu + i) = m.bits;
      *reinterpret_cast<uint4*>(nu + i) = n.bits;
      continue;
    }
    for (int64_t e = i; e < i + P::kCount && e < count; ++e) {
      const Updated u = update(a, wide(param[e]), wide(gradient[e]), wide(mu[e]), wide(nu[e]));
      param[e] = narrow<T>(u.param), mu[e] = narrow<T>(u.mu), nu[e] = narrow<T>(u.nu);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) scale_kernel(T* x, int64_t count, const float* factor) {
  using P = Pack<T>;
  const float times = *factor;
  if (times == 1.0f) return;
  const int64_t packs = reinterpret_cast<std::uintptr_t>(x) % 16 == 0 ? count / P::kCount : 0;
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x, all = int64_t{gridDim.x} * kThreads;
  for (int64_t i = first; i < packs; i += all) {
    P pack = P::at(x, i);
#pragma unroll
    for (int e = 0; e < P::kCount; ++e) pack.set(e, pack.get(e) * times);
    reinterpret_cast<uint4*>(x)[i] = pack.bits;
  }
  for (int64_t i = packs * P::kCount + first; i < count; i += all) x[i] = narrow<T>(wide(x[i]) * times);
}

}  // namespace

void scale(Element type, void* x, int64_t count, const float* factor, Stream stream) {
  const unsigned blocks = std::min(blocks_for(count, 8 * kThreads), 2048u);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    scale_kernel<T><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(x), count, factor);
  });
}

int64_t adamw_block(Element type) { return int64_t{kThreads} * kTurns * (type == Element::Float32 ? 4 : 8); }

void adamw(Element type, const Adamw& args, Stream stream) {
  const int blocks = args.first_block[args.tensors];
  if (blocks == 0) return;
  with_type(type,
            [&](auto t) { adamw_kernel<decltype(t)><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args); });
}

}  // namespace easydel::operations::cuda_kernels
