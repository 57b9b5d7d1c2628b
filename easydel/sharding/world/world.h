// All ranks of a run, and how they were started: threads of one process, MPI processes, or NCCL's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "easydel/sharding/collectives/group.h"
#include "easydel/sharding/mesh/mesh.h"

namespace easydel {

// What the calling rank has sent since the last reset, by group and collective ("fsdp", "all_gather").
struct CommunicationStats {
  struct Entry {
    int64_t calls = 0;
    int64_t bytes = 0;  // that left this rank: of an all_gather its own part to each other member, of an all_reduce
                        // 2 (n - 1) / n of the tensor, as a ring sends it
  };
  std::map<std::pair<std::string, std::string>, Entry> entries;
  void reset() { entries.clear(); }
};

// What the environment says; ConfigError when it makes no sense.
std::chrono::milliseconds default_collective_timeout();  // EASYDEL_TIMEOUT, in seconds; else ten minutes
bool default_collective_debug();                         // EASYDEL_DEBUG_COLLECTIVES=1

struct WorldOptions {
  std::chrono::milliseconds timeout = default_collective_timeout();  // of one collective
  bool debug = default_collective_debug();                           // members compare what they are about to do
};

// One rank's view of the run.
class World {
 public:
  virtual ~World() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual std::string backend_name() const = 0;  // "single", "threads", "mpi", "nccl"
  // The group of these ranks, the caller's own among them, in this order. Its members make it together; one that was
  // made before is given again.
  virtual std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) = 0;
  CommunicationStats& stats() { return *stats_; }

  // The calling thread's: that of run_ranks inside of it, else that of the process, which the environment of mpirun,
  // torchrun or Slurm decides at the first call; else one rank alone.
  static std::shared_ptr<World> current();

 protected:
  std::shared_ptr<CommunicationStats> stats_ = std::make_shared<CommunicationStats>();
};

// Runs `body` on so many threads, each a rank with a world of its own, and waits for all. When one throws, the others'
// collectives fail too; the first error is thrown here, with its rank before the message: a DistributedError only when
// no rank has an error of its own. One that is none of ours comes as a DistributedError. Each rank gets its share of
// torch's threads.
void run_ranks(int64_t count, const std::function<void(World&)>& body, const WorldOptions& options = {});

// So many ranks of which none runs, seen by one of them: for plans of what a mesh would hold. It makes no groups.
std::shared_ptr<World> planned_world(int64_t size, int64_t rank = 0);

// A mesh of real ranks: the groups over its axes, for the calling rank.
class DeviceMesh {
 public:
  // ConfigError when the mesh is larger or smaller than the world.
  DeviceMesh(Mesh mesh, std::shared_ptr<World> world);
  static std::shared_ptr<DeviceMesh> single();  // one device, no world

  const Mesh& mesh() const { return mesh_; }
  int64_t rank() const { return world_->rank(); }
  World& world() const { return *world_; }
  int64_t size(const std::vector<std::string>& axes) const { return mesh_.size(axes); }
  int64_t index(const std::vector<std::string>& axes) const;  // of the calling rank in the group over these axes
  // Axes that the mesh lacks, or of size one, are left out; the first named varies slowest.
  const Group& group(const std::vector<std::string>& axes) const;

 private:
  Mesh mesh_;
  std::shared_ptr<World> world_;
  mutable std::map<std::string, std::shared_ptr<Group>> groups_;
};

}  // namespace easydel
