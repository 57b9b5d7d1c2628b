// A block takes every parts-th row; its threads keep the columns that they sum for the weight. A second launch adds the
// sums of the blocks.
#include "easydel/operations/kernels/cuda/cuda_parts.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

constexpr int kMaxThreads = 1024, kMaxEach = 4;

// kEach packs of a row for each thread.
template <class T, int kEach>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_backward_kernel(RmsNormBackward a) {
  using P = Pack<T>;
  __shared__ float sums[2][kWarp];
  const int packs = static_cast<int>(a.width / P::kCount);
  float factor[kEach][P::kCount], totals[kEach][P::kCount];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = threadIdx.x + j * blockDim.x;
    const P weight = i < packs ? P::at(a.weight, i) : P{};
#pragma unroll
    for (int e = 0; e < P::kCount; ++e) factor[j][e] = weight.get(e) + a.offset, totals[j][e] = 0;
  }
  int turn = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    const float rstd = a.rstd[row];
    P x[kEach], d_y[kEach], residual[kEach];
    float dot = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = threadIdx.x + j * blockDim.x;
      x[j] = i < packs ? P::at(a.x, row * packs + i) : P{};
      d_y[j] = i < packs ? P::at(a.d_y, row * packs + i) : P{};
      residual[j] = i < packs && a.d_residual ? P::at(a.d_residual, row * packs + i) : P{};
#pragma unroll
      for (int e = 0; e < P::kCount; ++e) dot += d_y[j].get(e) * factor[j][e] * x[j].get(e);
    }
    const float mean = block_sum(dot, sums[turn]) * rstd / static_cast<float>(a.width);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = threadIdx.x + j * blockDim.x;
      if (i >= packs) break;
      P d_x;
#pragma unroll
      for (int e = 0; e < P::kCount; ++e) {
        const float normalized = x[j].get(e) * rstd;
        totals[j][e] += d_y[j].get(e) * normalized;
        d_x.set(e, rstd * (d_y[j].get(e) * factor[j][e] - normalized * mean) + residual[j].get(e));
      }
      static_cast<uint4*>(a.d_x)[row * packs + i] = d_x.bits;
    }
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = threadIdx.x + j * blockDim.x;
    if (i >= packs) break;
    for (int e = 0; e < P::kCount; ++e) a.d_factor[blockIdx.x * a.width + i * P::kCount + e] = totals[j][e];
  }
}

// The same for rows of at most a warp's packs: a warp for each, and the block sums for the weight at its end.
constexpr int kRowWarps = 8;
template <class T>
__global__ void __launch_bounds__(kRowWarps* kWarp) rms_norm_backward_warp_kernel(RmsNormBackward a) {
  using P = Pack<T>;
  __shared__ float sums[kRowWarps][kWarp * P::kCount];
  const int packs = static_cast<int>(a.width / P::kCount), lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const bool mine = lane < packs;
  const P weight = mine ? P::at(a.weight, lane) : P{};
  float totals[P::kCount] = {};
  for (int64_t row = int64_t{blockIdx.x} * kRowWarps + warp; row < a.rows; row += int64_t{gridDim.x} * kRowWarps) {
    const float rstd = a.rstd[row];
    const P x = mine ? P::at(a.x, row * packs + lane) : P{}, d_y = mine ? P::at(a.d_y, row * packs + lane) : P{};
    const P residual = mine && a.d_residual ? P::at(a.d_residual, row * packs + lane) : P{};
    float dot = 0;
#pragma unroll
    for (int e = 0; e < P::kCount; ++e) dot += d_y.get(e) * (weight.get(e) + a.offset) * x.get(e);
    const float mean = warp_sum(dot) * rstd / static_cast<float>(a.width);
    P d_x;
#pragma unroll
    for (int e = 0; e < P::kCount; ++e) {
      const float normalized = x.get(e) * rstd;
      totals[e] += d_y.get(e) * normalized;
      d_x.set(e, rstd * (d_y.get(e) * (weight.get(e) + a.offset) - normalized * mean) + residual.get(e));
    }
    if (mine) static_cast<uint4*>(a.d_x)[row * packs + lane] = d_x.bits;
  }
#pragma unroll
  for (int e = 0; e < P::kCount; ++e) sums[warp][lane * P::kCount + e] = totals[e];
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < a.width; column += kRowWarps * kWarp) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < kRowWarps; ++i) total += sums[i][column];
    a.d_factor[blockIdx.x * a.width + column] = total;
  }
}

// The sums of the blocks' rows: 32 columns for a block, 32 rows at a time.
__global__ void __launch_bounds__(kWarp* kWarp) sum_parts_kernel(RmsNormBackward a) {
  __shared__ float sums[kWarp][kWarp + 1];
  const int64_t first = int64_t{blockIdx.x} * kWarp, column = first + threadIdx.x;
  float sum = 0;
  if (column < a.width) {
#pragma unroll 4
    for (int part = static_cast<int>(threadIdx.y); part < a.parts; part += kWarp)
      sum += a.d_factor[part * a.width + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_sum(sums[threadIdx.x][threadIdx.y]);
  if (threadIdx.x == 0 && first + threadIdx.y < a.width) a.d_factor_sum[first + threadIdx.y] = sum;
}

int threads_for(int64_t packs) {
  return static_cast<int>(std::min<int64_t>(kMaxThreads, (packs + kWarp - 1) / kWarp * kWarp));
}
int64_t packs_of(Element type, int64_t width) { return width / (type == Element::Float32 ? 4 : 8); }

}  // namespace

bool can_rms_norm_backward(Element type, int64_t width) {
  return width > 0 && width % (type == Element::Float32 ? 4 : 8) == 0 &&
         packs_of(type, width) <= kMaxThreads * kMaxEach;
}

int rms_norm_parts(Element type, int64_t rows, int64_t width) {
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (packs_of(type, width) <= kWarp)
    return static_cast<int>(std::clamp<int64_t>((rows + kRowWarps - 1) / kRowWarps, 1, 6 * int64_t{processors}));
  const int64_t blocks = std::max(1, 1024 / threads_for(packs_of(type, width))) * int64_t{processors};
  return static_cast<int>(std::clamp<int64_t>(rows, 1, blocks));
}

void rms_norm_backward(Element type, const RmsNormBackward& args, Stream stream) {
  const int64_t packs = packs_of(type, args.width);
  const int threads = threads_for(packs), each = static_cast<int>((packs + threads - 1) / threads);
  const auto blocks = static_cast<unsigned>(args.parts);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if (packs <= kWarp) {
      rms_norm_backward_warp_kernel<T><<<blocks, kRowWarps * kWarp, 0, stream>>>(args);
    } else if (each == 1) {
      rms_norm_backward_kernel<T, 1><<<blocks, threads, 0, stream>>>(args);
    } else if (each == 2) {
      rms_norm_backward_kernel<T, 2><<<blocks, threads, 0, stream>>>(args);
    } else {
      rms_norm_backward_kernel<T, kMaxEach><<<blocks, threads, 0, stream>>>(args);
    }
  });
  sum_parts_kernel<<<blocks_for(args.width, kWarp), dim3(kWarp, kWarp), 0, stream>>>(args);
}

}  // namespace easydel::operations::cuda_kernels
