#include "easydel/core/build_info.h"
#include "easydel/sharding/world/process_world.h"

#if EASYDEL_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace easydel {

#if EASYDEL_HAS_CUDA
int64_t gpu_count() { return c10::cuda::device_count(); }

int64_t use_gpu(const Launch& launch) {
  const int64_t count = gpu_count();
  if (count == 0) return -1;
  const int64_t index = launch.local_rank % count;
  if (index > 0)
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));  // 0 is the default, and costs nothing until used
  return index;
}
#else
int64_t gpu_count() { return 0; }
int64_t use_gpu(const Launch&) { return -1; }
#endif

}  // namespace easydel
