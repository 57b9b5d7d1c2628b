#include "easydel/core/memory.h"

#include <ATen/ATen.h>

#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#endif

namespace easydel {
namespace {

#if EASYDEL_HAS_CUDA
using DeviceStats = std::decay_t<decltype(c10::cuda::CUDACachingAllocator::getDeviceStats(0))>;

// Of torch's allocator; zeros before the first tensor is on a GPU, when the allocator knows no device.
DeviceStats device_stats(at::Device device) {
  if (!c10::cuda::CUDACachingAllocator::get()->initialized()) return {};
  const c10::cuda::CUDAGuard guard(device);
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index() < 0 ? guard.current_device().index()
                                                                            : device.index());
}
#endif

// "VmHWM", "VmRSS"
int64_t process_memory(std::string_view key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace

std::optional<int64_t> available_memory(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) {
    const c10::cuda::CUDAGuard guard(device);
    std::size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    // Memory that torch has cached but does not use counts as free.
    const DeviceStats stats = device_stats(device);
    const int64_t unused = stats.reserved_bytes[0].current - stats.allocated_bytes[0].current;
    return static_cast<int64_t>(free) + unused;
  }
#endif
  if (!device.is_cpu()) return std::nullopt;
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (line.starts_with(kKey)) return std::strtoll(line.c_str() + kKey.size(), nullptr, 10) * 1024;
  }
  return std::nullopt;
}

int64_t used_memory(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) return device_stats(device).allocated_bytes[0].current;
#endif
  return device.is_cpu() ? process_memory("VmRSS") : 0;
}

int64_t peak_memory(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) return device_stats(device).allocated_bytes[0].peak;
#endif
  return device.is_cpu() ? process_memory("VmHWM") : 0;
}

at::Tensor copy_to(const at::Tensor& x, at::Device device) {
  return x.is_cpu() && device.is_cuda() ? x.pin_memory().to(device, /*non_blocking=*/true) : x.to(device);
}

at::Tensor zeros_on_demand(at::IntArrayRef sizes, const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return at::zeros(sizes, options);
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(sizes)) * options.dtype().itemsize();
  if (bytes == 0) return at::zeros(sizes, options);
  void* memory = std::calloc(bytes, 1);
  require<Error>(memory != nullptr, "[memory] cannot allocate ", bytes, " bytes for a tensor of ", sizes, ".");
  return at::from_blob(memory, sizes, [](void* p) { std::free(p); }, options);
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum: larger blocks are returned to the system
#endif
}

}  // namespace easydel
