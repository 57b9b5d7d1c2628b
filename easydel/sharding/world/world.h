// All ranks of a run: threads of one process, MPI processes, or NCCL processes.
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

// Traffic of the calling rank since the last reset, by group and collective ("fsdp", "all_gather").
struct CommunicationStats {
  struct Entry {
    int64_t calls = 0;
    int64_t bytes = 0;  // sent by this rank: of an all_gather its own part to each other member, of an all_reduce
    // 2 (n - 1) / n of the tensor, as in a ring
  };
  std::map<std::pair<std::string, std::string>, Entry> entries;
  void reset() { entries.clear(); }
};

// From the environment; ConfigError on invalid values.
std::chrono::milliseconds default_collective_timeout();  // EASYDEL_TIMEOUT, in seconds; else ten minutes
bool default_collective_debug();                         // EASYDEL_DEBUG_COLLECTIVES=1

struct WorldOptions {
  std::chrono::milliseconds timeout = default_collective_timeout();  // of one collective
  bool debug = default_collective_debug();                           // members compare their calls
};

// One rank's view of the run.
class World {
 public:
  virtual ~World() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual std::string backend_name() const = 0;  // "single", "threads", "mpi", "nccl"
  // The group of these ranks, including the caller's, in this order. Its members create it together; an existing one is
  // returned again.
  virtual std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) = 0;
  CommunicationStats& stats() { return *stats_; }

  // The calling thread's: inside run_ranks its own, else that of the process, determined at the first call by the
  // environment of mpirun, torchrun or Slurm; else a single rank.
  static std::shared_ptr<World> current();

 protected:
  std::shared_ptr<CommunicationStats> stats_ = std::make_shared<CommunicationStats>();
};

// Runs `body` on `count` threads, each a rank with its own world, and waits for all. When one throws, the others'
// collectives fail too; the first error is rethrown here, prefixed with its rank: a DistributedError only when no rank
// has an error of its own. Other exceptions become a DistributedError. Each rank gets its share of torch's threads.
void run_ranks(int64_t count, const std::function<void(World&)>& body, const WorldOptions& options = {});

// Simulated ranks, seen by one of them: for planning the memory of a mesh. It cannot create groups.
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
  int64_t index(const std::vector<std::string>& axes) const;  // the calling rank's index in the group over these axes
  // Axes that the mesh lacks, or of size one, are omitted; the first varies slowest.
  const Group& group(const std::vector<std::string>& axes) const;

 private:
  Mesh mesh_;
  std::shared_ptr<World> world_;
  mutable std::map<std::string, std::shared_ptr<Group>> groups_;
};

}  // namespace easydel
