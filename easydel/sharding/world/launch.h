// How this process was launched, from the environment variables of mpirun, torchrun or Slurm.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace easydel {

struct Launch {
  std::string launcher;  // "mpirun", "torchrun", "slurm"
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;  // among those on this machine
  int64_t local_size = 1;
  std::string address;  // where rank 0 listens for a TCP store; empty if unknown
  int port = 0;
  bool has_store = false;    // the launcher has started one there itself
  std::string store_prefix;  // of this run's keys in it
};

using Environment = std::function<const char*(const char* name)>;  // std::getenv

// Nullopt for a single process, also inside a Slurm batch script that srun did not start. ConfigError when the
// variables contradict each other.
std::optional<Launch> find_launch(const Environment& environment);

// The first host of Slurm's "gpu[03-07,12],login1": "gpu03".
std::string first_host(const std::string& node_list);

}  // namespace easydel
