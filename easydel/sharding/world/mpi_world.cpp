#include "easydel/core/error.h"
#include "easydel/sharding/world/current_world.h"
#include "easydel/sharding/world/mpi_backend.h"
#include "easydel/sharding/world/process_world.h"

namespace easydel {
namespace {

class MpiWorld : public World {
 public:
  explicit MpiWorld(const WorldOptions& options) : runtime_(MpiRuntime::start(options)) {}

  int64_t rank() const override { return runtime_.rank(); }
  int64_t size() const override { return runtime_.size(); }
  std::string backend_name() const override { return "mpi"; }

  std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) override {
    member_index(*this, ranks);
    std::shared_ptr<Group>& group = groups_[{name, {ranks.begin(), ranks.end()}}];
    if (!group) {
      c10::intrusive_ptr<c10d::Backend> backend;
      if (ranks.size() > 1) backend = c10::make_intrusive<MpiBackend>(runtime_, runtime_.open(name, ranks));
      group = std::make_shared<Group>(name, std::move(backend), stats_);
    }
    return group;
  }

 private:
  MpiRuntime& runtime_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::shared_ptr<Group>> groups_;
};

}  // namespace

bool has_mpi() { return true; }

std::shared_ptr<World> make_mpi_world(const Launch& launch, const WorldOptions& options) {
  auto world = std::make_shared<MpiWorld>(options);
  require<ConfigError>(world->size() == launch.size && world->rank() == launch.rank, "[World] ", launch.launcher,
                       " reports rank ", launch.rank, " of ", launch.size, ", but MPI reports ", world->rank(), " of ",
                       world->size(),
                       ". Start the run with the mpirun of the Open MPI that easydel was built with, or with srun "
                       "--mpi=pmix.");
  return world;
}

}  // namespace easydel
