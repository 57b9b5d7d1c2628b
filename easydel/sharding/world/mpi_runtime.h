// MPI in this process: initialized once, finalized at exit.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "easydel/sharding/world/mpi_inquiry.h"
#include "easydel/sharding/world/world.h"

namespace easydel {

// A group of processes and its communicator.
struct MpiChannel {
  std::string name;
  std::vector<int64_t> ranks;  // of the world, in the order of the members
  int64_t member = 0;          // this process
  MPI_Comm comm = MPI_COMM_NULL;
  uint64_t id = 0;                   // from name and ranks
  std::atomic<uint64_t> entered{0};  // collectives that this process has entered

  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
};

class MpiRuntime {
 public:
  // Initializes MPI at the first call. It ends with the process: finalized on success, else by MPI_Abort, which ends
  // all ranks with a non-zero status.
  static MpiRuntime& start(const WorldOptions& options);

  int64_t rank() const { return world_->member; }
  int64_t size() const { return world_->size(); }
  const WorldOptions& options() const { return options_; }
  MpiInquiry& inquiry() { return *inquiry_; }

  // Called by all members together; waits for them, with a timeout.
  std::shared_ptr<MpiChannel> open(const std::string& name, std::span<const int64_t> ranks);

  // From now on the collectives of all ranks throw this message.
  [[noreturn]] void fail(const std::string& message);
  void adopt_failure(const std::string& message);  // reported by another rank
  void check_failure() const;                      // throws it

 private:
  explicit MpiRuntime(const WorldOptions& options);
  static void at_exit(int status, void* runtime);

  const WorldOptions options_;
  std::shared_ptr<MpiChannel> world_;  // for messages outside groups
  std::unique_ptr<MpiInquiry> inquiry_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<MpiChannel>> channels_;
  std::optional<std::string> failure_;
};

// For "[all_reduce] group "fsdp" of ranks 0 and 1: ".
std::string where(const MpiChannel& channel, const std::string& what);

// MPI's text for an error code.
std::string mpi_error_text(int code);

}  // namespace easydel
