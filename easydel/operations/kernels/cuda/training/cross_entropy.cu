// Cross-entropy of rows of logits, and its gradient.
#include <cooperative_groups.h>

#include <algorithm>

#include "easydel/operations/kernels/cuda/cuda_parts.cuh"
#include "easydel/operations/kernels/cuda/launch_after.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

// A running maximum and sum of exponentials, which can be merged.
struct MaxSum {
  float maximum, sum;
};
__device__ inline MaxSum merge(MaxSum a, MaxSum b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  if (maximum == -INFINITY) return {maximum, 0.0f};
  return {maximum, a.sum * __expf(a.maximum - maximum) + b.sum * __expf(b.maximum - maximum)};
}

__device__ inline MaxSum warp_merge(MaxSum seen) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    seen =
        merge(seen, {__shfl_xor_sync(0xffffffffu, seen.maximum, step), __shfl_xor_sync(0xffffffffu, seen.sum, step)});
  }
  return seen;
}

template <class D>
struct alignas(4 * sizeof(D)) FourOf {
  D values[4];
};

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
  seen = warp_merge(seen);
  total = warp_sum(total);
  if (threadIdx.x % kWarp == 0) {
    maxima[threadIdx.x / kWarp] = seen.maximum;
    sums[threadIdx.x / kWarp] = seen.sum;
    totals[threadIdx.x / kWarp] = total;
  }
  const float picked = valid ? logit(x[label]) : 0.0f;
  __syncthreads();
  seen = {maxima[threadIdx.x % kWarp], sums[threadIdx.x % kWarp]};
  seen = warp_merge(seen);
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
  D* d_x = static_cast<D*>(a.d_logits) + row * a.width;
  for (int64_t i = threadIdx.x; i < packs; i += kRowThreads) {
    const float4 four = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<FourOf<D>*>(d_x)[i] = {{narrow<D>(slope(four.x, 4 * i)), narrow<D>(slope(four.y, 4 * i + 1)),
                                             narrow<D>(slope(four.z, 4 * i + 2)), narrow<D>(slope(four.w, 4 * i + 3))}};
  }
  for (int64_t i = packs * 4 + threadIdx.x; i < a.width; i += kRowThreads) d_x[i] = narrow<D>(slope(x[i], i));
}

// A cluster of blocks for a row, each with its part of it in shared memory: the row is read once.
constexpr int kPartThreads = 512, kPartBlocks = 3, kMaxCluster = 8;
constexpr std::size_t kUsualPart = 68 << 10, kMaxPart = 200 << 10;  // bytes: of kPartBlocks on a multiprocessor, of one

// What a block knows of its part, for the others of the cluster.
struct PartSums {
  MaxSum seen;
  float total, picked;
};

template <class D, bool kCapped>
__global__ void __launch_bounds__(kPartThreads, kPartBlocks) cross_entropy_part_kernel(CrossEntropy a, int part) {
#if __CUDA_ARCH__ >= 900
  constexpr int kTurns = 4;
  extern __shared__ float4 own[];
  __shared__ float maxima[kWarp], sums[kWarp], totals[kWarp];
  __shared__ PartSums mine;
  const auto cluster = cooperative_groups::this_cluster();
  const auto blocks = static_cast<int>(cluster.num_blocks());
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks), label = a.labels[row];
  const int64_t begin = static_cast<int64_t>(cluster.block_rank()) * part;
  const int count = static_cast<int>(max(int64_t{0}, min(int64_t{part}, a.width - begin))), packs = count / 4;
  const float4* x = reinterpret_cast<const float4*>(a.logits + row * a.width + begin);
  const bool valid = label != a.ignore_index;
  const int read = valid ? packs : 0;
  const auto logit = [&](float raw) {
    const float scaled = raw * a.logit_scale;
    return kCapped ? tanhf(scaled / a.logit_softcap) * a.logit_softcap : scaled;
  };
  MaxSum seen{-INFINITY, 0.0f};
  float total = 0.0f;
  for (int first = static_cast<int>(threadIdx.x); first < read; first += kTurns * kPartThreads) {
    float4 y[kTurns];
    float largest = -INFINITY;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int i = first + turn * kPartThreads;
      if (i < read) y[turn] = x[i];
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int i = first + turn * kPartThreads;
      if (i >= read) continue;
      float4& four = y[turn];
      four = {logit(four.x), logit(four.y), logit(four.z), logit(four.w)};
      own[i] = four;
      total += four.x + four.y + four.z + four.w;
      largest = fmaxf(largest, fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)));
    }
    if (largest > seen.maximum) {
      seen.sum *= __expf(seen.maximum - largest);
      seen.maximum = largest;
    }
    if (seen.maximum == -INFINITY) continue;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (first + turn * kPartThreads >= read) continue;
      const float4 four = y[turn];
      seen.sum += __expf(four.x - seen.maximum) + __expf(four.y - seen.maximum) + __expf(four.z - seen.maximum) +
                  __expf(four.w - seen.maximum);
    }
  }
  seen = warp_merge(seen);
  total = warp_sum(total);
  if (threadIdx.x % kWarp == 0) {
    maxima[threadIdx.x / kWarp] = seen.maximum;
    sums[threadIdx.x / kWarp] = seen.sum;
    totals[threadIdx.x / kWarp] = total;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    constexpr int kWarps = kPartThreads / kWarp;
    const bool is_warp = threadIdx.x < kWarps;
    seen = warp_merge(is_warp ? MaxSum{maxima[threadIdx.x], sums[threadIdx.x]} : MaxSum{-INFINITY, 0.0f});
    total = warp_sum(is_warp ? totals[threadIdx.x] : 0.0f);
    const int64_t place = label - begin;
    const bool has_label = valid && place >= 0 && place < count;
    if (threadIdx.x == 0) mine = {seen, total, has_label ? reinterpret_cast<const float*>(own)[place] : 0.0f};
  }
  cluster.sync();
  seen = {-INFINITY, 0.0f};
  total = 0.0f;
  float picked = 0.0f;
  for (int i = 0; i < blocks; ++i) {
    const PartSums& other = *cluster.map_shared_rank(&mine, i);
    seen = merge(seen, other.seen);
    total += other.total;
    picked += other.picked;
  }
  cluster.barrier_arrive();  // waited for at the end: nobody's sums may go before all have read them
  const float lse = valid ? seen.maximum + logf(seen.sum) : 0.0f, width = static_cast<float>(a.width);
  if (begin == 0 && threadIdx.x == 0) {
    const float nll = (1.0f - a.label_smoothing) * (lse - picked) + a.label_smoothing * (lse - total / width);
    a.nll[row] = valid ? nll : 0.0f;
    a.lse[row] = lse;
    a.correct[row] = valid && picked >= seen.maximum;
  }
  if (a.scale) {
    const float weight = valid ? a.scale[row] : 0.0f;
    const float times = weight * (1.0f + 2.0f * a.z_loss * lse), minus = weight * a.label_smoothing / width;
    const float at_label = weight * (a.label_smoothing - 1.0f);
    const auto place = static_cast<int>(max(int64_t{-1}, min(int64_t{count}, label - begin)));
    const auto slope = [&](float y, int i) {
      float d = __expf(y - lse) * times - minus;
      if (i == place) d += at_label;
      if (kCapped) d *= 1.0f - (y / a.logit_softcap) * (y / a.logit_softcap);
      return d * a.logit_scale;
    };
    FourOf<D>* d_x = reinterpret_cast<FourOf<D>*>(static_cast<D*>(a.d_logits) + row * a.width + begin);
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += kPartThreads) {
      const float4 four = valid ? own[i] : float4{};
      d_x[i] = {{narrow<D>(slope(four.x, 4 * i)), narrow<D>(slope(four.y, 4 * i + 1)),
                 narrow<D>(slope(four.z, 4 * i + 2)), narrow<D>(slope(four.w, 4 * i + 3))}};
    }
  }
  cluster.barrier_wait();
#endif
}

// Blocks for a row, and elements of each; no blocks: the kernel of whole rows is for such rows.
struct Parts {
  int blocks, elements;
};
Parts parts_for(const CrossEntropy& a) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  if (a.width % 4 != 0 || !aligned(a.logits) || !aligned(a.d_logits) || !can_overlap()) return {0, 0};
  int device = 0, shared = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const int64_t room = shared - (2 << 10);  // the kernel has some of its own
  for (int blocks = 1; blocks <= kMaxCluster; blocks *= 2) {
    const int64_t elements = (a.width + 4 * blocks - 1) / (4 * blocks) * 4,
                  most = std::min<int64_t>(room, blocks < kMaxCluster ? kUsualPart : kMaxPart);
    if (elements * int64_t{sizeof(float)} <= most) return {blocks, static_cast<int>(elements)};
  }
  return {0, 0};
}

template <class Kernel>
void launch_parts(Kernel* kernel, const CrossEntropy& args, Parts parts, Stream stream) {
  const std::size_t bytes = static_cast<std::size_t>(parts.elements) * sizeof(float);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(parts.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.rows * parts.blocks));
  config.blockDim = dim3(kPartThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, args, parts.elements);
}

}  // namespace

void cross_entropy(Element d_type, const CrossEntropy& given, Stream stream) {
  if (given.rows == 0) return;
  CrossEntropy args = given;
  if (!args.d_logits) args.d_logits = args.logits;
  const Parts parts = parts_for(args);
  with_type(given.d_logits ? d_type : Element::Float32, [&](auto d) {
    using D = decltype(d);
    if (parts.blocks == 0) {
      cross_entropy_kernel<D><<<static_cast<unsigned>(args.rows), kRowThreads, 0, stream>>>(args);
    } else if (args.logit_softcap != 0.0f) {
      launch_parts(cross_entropy_part_kernel<D, true>, args, parts, stream);
    } else {
      launch_parts(cross_entropy_part_kernel<D, false>, args, parts, stream);
    }
  });
}

}  // namespace easydel::operations::cuda_kernels
