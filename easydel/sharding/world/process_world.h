// Worlds whose ranks are processes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "easydel/sharding/world/launch.h"
#include "easydel/sharding/world/world.h"

namespace easydel {

// NotSupportedError in a build without it.
std::shared_ptr<World> make_mpi_world(const Launch& launch, const WorldOptions& options);
std::shared_ptr<World> make_nccl_world(const Launch& launch, const WorldOptions& options);

std::shared_ptr<World> make_process_world();  // configured by the environment

bool has_mpi();       // in this build
bool has_nccl();      // in this build
int64_t gpu_count();  // visible to this process
// Selects the rank's GPU as the current device; ranks share when there are more of them. Its index, or -1.
int64_t use_gpu(const Launch& launch);

// "mpi", "nccl" or "single": EASYDEL_BACKEND, else the best available. NCCL needs a GPU for each rank of a machine.
// ConfigError or NotSupportedError when none is possible.
struct Machine {
  bool has_mpi = false;
  bool has_nccl = false;
  int64_t gpus = 0;
};
std::string choose_backend(const std::optional<Launch>& launch, const std::string& wanted, const Machine& machine);

}  // namespace easydel
