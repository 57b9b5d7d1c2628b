#include "easydel/core/error.h"
#include "easydel/sharding/world/process_world.h"

namespace easydel {

bool has_mpi() { return false; }

std::shared_ptr<World> make_mpi_world(const Launch&, const WorldOptions&) {
  fail<NotSupportedError>("[World] this build has no MPI. Install libopenmpi-dev, then configure and build again.");
}

}  // namespace easydel
