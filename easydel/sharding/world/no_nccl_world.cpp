#include "easydel/core/error.h"
#include "easydel/sharding/world/process_world.h"

namespace easydel {

bool has_nccl() { return false; }

std::shared_ptr<World> make_nccl_world(const Launch&, const WorldOptions&) {
  fail<NotSupportedError>(
      "[World] this build has no NCCL. It comes with a torch built for CUDA, named by EASYDEL_TORCH, and the "
      "nvidia-nccl "
      "package next to it.");
}

}  // namespace easydel
