// Worlds whose ranks are processes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "easydel/sharding/world/launch.h"
#include "easydel/sharding/world/world.h"

namespace easydel {

// NotSupportedError says what a build without it lacks.
std::shared_ptr<World> make_mpi_world(const Launch& launch, const WorldOptions& options);
std::shared_ptr<World> make_nccl_world(const Launch& launch, const WorldOptions& options);

std::shared_ptr<World> make_process_world();  // as the environment says

bool has_mpi();       // in this build
bool has_nccl();      // in this build
int64_t gpu_count();  // that this process sees
// Makes the GPU that belongs to the rank the current one; ranks share when there are more of them. Its index, or -1.
int64_t use_gpu(const Launch& launch);

// "mpi", "nccl" or "single": what EASYDEL_BACKEND says, else what fits. NCCL wants a GPU for each rank of a machine.
// ConfigError or NotSupportedError when nothing does.
struct Machine {
  bool has_mpi = false;
  bool has_nccl = false;
  int64_t gpus = 0;
};
std::string choose_backend(const std::optional<Launch>& launch, const std::string& wanted, const Machine& machine);

}  // namespace easydel
