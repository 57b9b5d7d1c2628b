#include "easydel/cli/bench/bench_tools.h"

#include <ATen/ATen.h>

#include <chrono>

#include "easydel/core/build_info.h"
#include "easydel/core/random.h"

#if EASYDEL_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace easydel::cli {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void wait_for(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#endif
  (void)device;
}

at::Tensor random_ids(int64_t batch, int64_t tokens, int64_t vocabulary) {
  at::Tensor ids = at::empty({batch, tokens}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(
        RandomKey(0).fold(static_cast<uint64_t>(i)).fold("prompt").bits() % static_cast<uint64_t>(vocabulary));
  return ids;
}

}  // namespace easydel::cli
