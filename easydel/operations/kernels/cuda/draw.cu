// core/random.h's normal numbers on a GPU: element i is number i % 4 of Philox block i / 4.
#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

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

}  // namespace

void draw_normal(Element type, const DrawNormal& args, Stream stream) {
  if (args.count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((args.count + 255) / 256, 1 << 16));
  with_type(type, [&](auto t) { draw_normal_kernel<decltype(t)><<<blocks, 256, 0, stream>>>(args); });
}

}  // namespace easydel::operations::cuda_kernels
