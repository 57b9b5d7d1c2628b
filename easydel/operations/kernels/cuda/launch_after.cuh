// Kernels that begin while the one before them ends (programmatic dependent launch), on GPUs of compute capability 9.0
// and newer. Such a kernel calls next_may_start() first, and wait_for_previous() before it reads what another kernel
// wrote, or writes at all; until then it may only ask for memory to be brought into the second cache.
#pragma once

#include <cuda_runtime.h>

#include "easydel/operations/kernels/cuda/cuda_kernels.h"

namespace easydel::operations::cuda_kernels {
namespace {

__device__ inline void next_may_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A warp's share of `bytes` that it will read.
__device__ inline void prefetch(const void* from, int64_t bytes) {
  for (int64_t at = threadIdx.x % 32 * 128; at < bytes; at += 32 * 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + at));
}

inline bool can_overlap() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major >= 9;
}

template <class... Params, class... Args>
void launch_after(void (*kernel)(Params...), dim3 grid, int threads, std::size_t shared_bytes, Stream stream,
                  const Args&... args) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = can_overlap() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

}  // namespace
}  // namespace easydel::operations::cuda_kernels
