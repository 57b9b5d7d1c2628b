#include "easydel/core/device.h"

#include <ATen/Context.h>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

namespace easydel {

void require_device(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return;
  require<NotSupportedError>(device.is_cuda(), "[device] must be cpu, cuda or cuda:N; got ", device.str(), ".");
  require<NotSupportedError>(EASYDEL_HAS_CUDA, "[device] ", device.str(), " needs a build with CUDA; torch ",
                             EASYDEL_TORCH_VERSION, " here was built without. Use cpu, or build with a CUDA torch.");
  const auto count = static_cast<int64_t>(at::getNumGPUs());
  require<NotSupportedError>(count > 0, "[device] ", device.str(), " needs a GPU; none is visible. Use cpu.");
  require<NotSupportedError>(device.index() < count, "[device] ", device.str(),
                             " does not exist; available: cuda:0 to cuda:", count - 1, ".");
}

}  // namespace easydel
