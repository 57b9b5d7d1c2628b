// The experts of a few tokens, straight from their routing: rows are not sorted, and each token reads its own experts.
#include "easydel/operations/kernels/cuda/expert_rows.h"
#include "easydel/operations/kernels/cuda/rows/row_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

// A token's experts, and the weights of what they give.
struct Chosen {
  int experts[kMaxTokenExperts];
  float weights[kMaxTokenExperts];
  __device__ void load(const ExpertsOfTokens& a) {
    const int64_t first = blockIdx.y * a.top_k;
    for (int k = threadIdx.x; k < a.top_k; k += kRowThreads) {
      const int64_t expert = a.experts[first + k];
      if (expert < 0 || expert >= a.count) __trap();
      experts[k] = static_cast<int>(expert);
      weights[k] = a.weights[first + k];
    }
  }
};

template <class T>
__device__ void hold(uint4* held, const void* x, int packs) {
  for (int i = threadIdx.x; i < packs; i += kRowThreads)
    held[i] = Pack<T>::at(x, blockIdx.y * static_cast<int64_t>(packs) + i).bits;
}

// A warp's sums become the split's, in its first lane.
__device__ inline void join(float (&sums)[2], float (*parts)[2], int split) {
  sums[0] = warp_sum(sums[0]), sums[1] = warp_sum(sums[1]);
  if (split == 1) return;
  const int warp = threadIdx.x / kWarp;
  if (threadIdx.x % kWarp == 0) parts[warp][0] = sums[0], parts[warp][1] = sums[1];
  __syncthreads();
  if (threadIdx.x % kWarp == 0 && warp % split == 0)
    for (int w = 1; w < split; ++w) sums[0] += parts[warp + w][0], sums[1] += parts[warp + w][1];
  __syncthreads();
}

// f(i) gives two rows' piece i and a factor of their product with piece i of the vector.
constexpr int kAhead = 4;
template <class T, class F>
__device__ inline void multiply(const uint4* held, int begin, int end, const F& f, float (&sums)[2]) {
  for (int from = begin + static_cast<int>(threadIdx.x % kWarp); from < end; from += kWarp * kAhead) {
    uint4 first[kAhead], second[kAhead];
    float factors[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (from + j * kWarp >= end) break;
      const uint4 *one, *two;
      factors[j] = f(from + j * kWarp, one, two);
      first[j] = load_pack(one), second[j] = load_pack(two);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (from + j * kWarp >= end) break;
      float own[2] = {};
      add_dense<T>(first[j], second[j], Pack<T>{held[from + j * kWarp]}, own);
      sums[0] += factors[j] * own[0], sums[1] += factors[j] * own[1];
    }
  }
}

// inner[t, k] = act(gate x[t]) * up x[t] of its k-th expert: the pair of rows i and i + inner_width.
template <class T>
__global__ void __launch_bounds__(kRowThreads, 3)
    expert_gate_kernel(const __grid_constant__ ExpertsOfTokens a, int split) {
  extern __shared__ uint4 held[];
  __shared__ Chosen chosen;
  __shared__ float parts[kRowWarps][2], sums_of_squares[kWarp];
  next_may_start();
  wait_for_previous();
  const int packs = static_cast<int>(a.width / Pack<T>::kCount), inner = static_cast<int>(a.inner_width);
  chosen.load(a);
  if (a.norm.weight) find_squares<T, 1>(a.x, blockIdx.y, 1, packs, sums_of_squares);
  for (int i = threadIdx.x; i < packs; i += kRowThreads)
    held[i] = normalized_pack<T>(a.x, a.norm, blockIdx.y, packs, i, sums_of_squares[0]).bits;
  __syncthreads();
  const int warp = threadIdx.x / kWarp, each = kRowWarps / split, share = (packs + split - 1) / split;
  const int begin = warp % split * share, end = min(packs, begin + share), pairs = static_cast<int>(a.top_k) * inner;
  for (int base = blockIdx.x * each; base < pairs; base += gridDim.x * each) {
    const int index = base + warp / split, slot = index / inner, row = index % inner;
    float sums[2] = {};
    if (index < pairs) {
      const uint4* gate =
          static_cast<const uint4*>(a.gate_up) + (static_cast<int64_t>(chosen.experts[slot]) * 2 * inner + row) * packs;
      const uint4* up = gate + static_cast<int64_t>(inner) * packs;
      multiply<T>(
          held, begin, end,
          [&](int i, const uint4*& one, const uint4*& two) {
            one = gate + i, two = up + i;
            return 1.0f;
          },
          sums);
    }
    join(sums, parts, split);
    if (index >= pairs || threadIdx.x % kWarp != 0 || warp % split != 0) continue;
    const float act = activate(wide(narrow<T>(sums[0])), a.gelu).value;
    static_cast<T*>(a.inner)[blockIdx.y * static_cast<int64_t>(pairs) + index] =
        narrow<T>(wide(narrow<T>(act)) * wide(narrow<T>(sums[1])));
  }
}

// y[t] = the sum over k of weight * down inner[t, k].
template <class T>
__global__ void __launch_bounds__(kRowThreads, 3)
    expert_down_kernel(const __grid_constant__ ExpertsOfTokens a, int split) {
  extern __shared__ uint4 held[];
  __shared__ Chosen chosen;
  __shared__ float parts[kRowWarps][2];
  next_may_start();
  wait_for_previous();
  const int in_slot = static_cast<int>(a.inner_width / Pack<T>::kCount), packs = in_slot * static_cast<int>(a.top_k);
  const int rows = static_cast<int>(a.width);
  chosen.load(a);
  hold<T>(held, a.inner, packs);
  __syncthreads();
  const int warp = threadIdx.x / kWarp, each = kRowWarps / split, share = (packs + split - 1) / split;
  const int begin = warp % split * share, end = min(packs, begin + share), pairs = (rows + 1) / 2;
  for (int base = blockIdx.x * each; base < pairs; base += gridDim.x * each) {
    const int index = base + warp / split, first = 2 * index, second = min(2 * index + 1, rows - 1);
    float sums[2] = {};
    if (index < pairs) {
      const uint4* down = static_cast<const uint4*>(a.down);
      multiply<T>(
          held, begin, end,
          [&](int i, const uint4*& one, const uint4*& two) {
            const int slot = i / in_slot, at = i - slot * in_slot;
            const int64_t matrix = static_cast<int64_t>(chosen.experts[slot]) * rows;
            one = down + (matrix + first) * in_slot + at, two = down + (matrix + second) * in_slot + at;
            return chosen.weights[slot];
          },
          sums);
    }
    join(sums, parts, split);
    if (index >= pairs || threadIdx.x % kWarp != 0 || warp % split != 0) continue;
    T* y = static_cast<T*>(a.y) + blockIdx.y * static_cast<int64_t>(rows);
    if (a.residual) {
      const T* more = static_cast<const T*>(a.residual) + blockIdx.y * static_cast<int64_t>(rows);
      sums[0] = wide(more[first]) + rounded<T>(sums[0]), sums[1] = wide(more[second]) + rounded<T>(sums[1]);
    }
    y[first] = narrow<T>(sums[0]);
    y[second] = narrow<T>(second == first ? sums[0] : sums[1]);
  }
}

template <class Kernel>
void launch_pairs(Kernel kernel, const ExpertsOfTokens& a, int64_t pairs, int64_t packs, Stream stream) {
  const int64_t most = std::max<int64_t>(1, 3LL * processors() / a.tokens);
  const int split = warps_for_row(pairs, packs, most, kAhead);
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(blocks_for(pairs, kRowWarps / split), most)),
                  static_cast<unsigned>(a.tokens));
  allow_shared(kernel, packs * 16);
  launch_after(kernel, grid, kRowThreads, static_cast<std::size_t>(packs * 16), stream, a, split);
}

}  // namespace

bool can_multiply_tokens(Element type, const ExpertsOfTokens& a) {
  const int64_t size = type == Element::Float32 ? 4 : 2, count = 16 / size;
  return a.tokens > 0 && a.tokens <= kMaxExpertTokens && a.top_k > 0 && a.top_k <= kMaxTokenExperts && a.width > 0 &&
         a.inner_width > 0 && a.width % count == 0 && a.inner_width % count == 0 && a.width * size <= kMaxHeldBytes &&
         a.top_k * a.inner_width * size <= kMaxHeldBytes;
}

void multiply_tokens(Element type, const ExpertsOfTokens& a, Stream stream) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch_pairs(expert_gate_kernel<T>, a, a.top_k * a.inner_width, a.width / Pack<T>::kCount, stream);
    launch_pairs(expert_down_kernel<T>, a, (a.width + 1) / 2, a.top_k * a.inner_width / Pack<T>::kCount, stream);
  });
}

}  // namespace easydel::operations::cuda_kernels
