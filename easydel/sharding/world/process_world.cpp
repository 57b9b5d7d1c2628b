#include "easydel/sharding/world/process_world.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/runtime.h"
#include "easydel/sharding/world/current_world.h"

namespace easydel {
namespace {

// Ranks on one machine share its cores, unless the user has set the number of threads.
void share_threads(const Launch& launch) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  const int64_t share = static_cast<int64_t>(std::thread::hardware_concurrency()) / launch.local_size;
  at::set_num_threads(static_cast<int>(std::clamp<int64_t>(share, 1, at::get_num_threads())));
}

}  // namespace

std::string choose_backend(const std::optional<Launch>& launch, const std::string& wanted, const Machine& machine) {
  require<ConfigError>(wanted.empty() || wanted == "mpi" || wanted == "nccl" || wanted == "single",
                       "[World] EASYDEL_BACKEND must be mpi, nccl or single; got \"", wanted, "\".");
  if (!launch || wanted == "single") {
    require<ConfigError>(launch || wanted.empty() || wanted == "single", "[World] EASYDEL_BACKEND=", wanted,
                         " needs ranks; start the run with mpirun, torchrun or srun.");
    return "single";
  }
  if (!wanted.empty()) return wanted;
  if (launch->size == 1) return "single";
  if (machine.has_nccl && machine.gpus >= launch->local_size) return "nccl";
  if (launch->launcher == "torchrun") {
    require<NotSupportedError>(machine.has_nccl,
                               "[World] torchrun's ranks use NCCL, which this build lacks. Use mpirun, or --devices "
                               "for ranks in one process.");
    fail<NotSupportedError>("[World] torchrun's ranks use NCCL, which needs a GPU for each rank of a machine; got ",
                            machine.gpus, " for ", launch->local_size, ". Use mpirun, or --devices for ranks in one ",
                            "process.");
  }
  require<NotSupportedError>(machine.has_mpi, "[World] ", launch->launcher, " has started ", launch->size,
                             " ranks, but this build has no MPI, and NCCL ",
                             machine.has_nccl ? "needs a GPU for each rank of a machine." : "is missing too.",
                             " Install libopenmpi-dev, then configure and build again.");
  return "mpi";
}

std::shared_ptr<World> make_process_world() {
  const auto launch = find_launch([](const char* name) -> const char* { return std::getenv(name); });
  const char* wanted = std::getenv("EASYDEL_BACKEND");
  const std::string backend =
      choose_backend(launch, wanted == nullptr ? "" : wanted,
                     {.has_mpi = has_mpi(), .has_nccl = has_nccl(), .gpus = launch ? gpu_count() : 0});
  if (backend == "single") return single_world();
  share_threads(*launch);
  use_gpu(*launch);
  auto world = backend == "mpi" ? make_mpi_world(*launch, {}) : make_nccl_world(*launch, {});
  set_process_rank({world->rank(), world->size()});
  return world;
}

}  // namespace easydel
