#include "easydel/core/error.h"
#include "easydel/sharding/world/process_world.h"

namespace easydel {

bool has_mpi() { return false; }

std::shared_ptr<World> make_mpi_world(const Launch&, const WorldOptions&) {
  fail<NotSupportedError>(
      "[World] this build has no MPI. It comes with libopenmpi-dev: install that, then configure and build again.");
}

}  // namespace easydel
