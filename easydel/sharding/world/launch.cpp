#include "easydel/sharding/world/launch.h"

#include <charconv>
#include <cstring>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr int kPort = 29500;  // torchrun's

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }

  int64_t number(const char* name) const {
    const std::string value = text(name);
    int64_t result = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    require<ConfigError>(error == std::errc() && end == value.data() + value.size() && result >= 0, "[World] ", name,
                         " must be a number; got \"", value, "\".");
    return result;
  }
  int64_t number(const char* name, int64_t otherwise) const { return has(name) ? number(name) : otherwise; }

 private:
  const Environment& environment_;
};

// Jobs on one machine need different ports, and all ranks of a job must compute the same one.
int port_for(const std::string& job) {
  return job.empty() ? kPort : 20000 + static_cast<int>(std::hash<std::string>()(job) % 20000);
}

void check(const Launch& launch) {
  require<ConfigError>(launch.size >= 1 && launch.rank < launch.size, "[World] the rank set by ", launch.launcher,
                       " must be less than the number of ranks; got ", launch.rank, " of ", launch.size, ".");
}

}  // namespace

std::string first_host(const std::string& node_list) {
  const std::size_t end = node_list.find_first_of("[,");
  std::string host = node_list.substr(0, end);
  if (end == std::string::npos || node_list[end] == ',') return host;
  const std::size_t stop = node_list.find_first_of("-,]", end + 1);
  host += node_list.substr(end + 1, stop == std::string::npos ? stop : stop - end - 1);
  const std::size_t close = node_list.find(']', end);
  if (close == std::string::npos) return host;
  return host + node_list.substr(close + 1, node_list.find(',', close) - close - 1);
}

std::optional<Launch> find_launch(const Environment& environment) {
  const Variables variables(environment);
  Launch launch;
  launch.address = variables.text("MASTER_ADDR");
  launch.port = static_cast<int>(variables.number("MASTER_PORT", 0));
  std::string job;
  if (variables.has("OMPI_COMM_WORLD_SIZE")) {
    launch.launcher = "mpirun";
    launch.rank = variables.number("OMPI_COMM_WORLD_RANK");
    launch.size = variables.number("OMPI_COMM_WORLD_SIZE");
    launch.local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
    launch.local_size = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
    job = variables.text("PMIX_NAMESPACE");
  } else if (variables.has("WORLD_SIZE") && variables.has("RANK")) {
    launch.launcher = "torchrun";
    launch.rank = variables.number("RANK");
    launch.size = variables.number("WORLD_SIZE");
    launch.local_rank = variables.number("LOCAL_RANK", 0);
    launch.local_size = variables.number("LOCAL_WORLD_SIZE", 1);
    launch.has_store = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    launch.store_prefix = variables.text("TORCHELASTIC_RUN_ID") + "/" + variables.text("TORCHELASTIC_RESTART_COUNT");
  } else if (variables.has("SLURM_PROCID") && (variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEPID"))) {
    // A batch script has SLURM_PROCID too, but it is not a job step.
    launch.launcher = "slurm";
    launch.rank = variables.number("SLURM_PROCID");
    launch.size = variables.has("SLURM_STEP_NUM_TASKS") ? variables.number("SLURM_STEP_NUM_TASKS")
                                                        : variables.number("SLURM_NTASKS");
    launch.local_rank = variables.number("SLURM_LOCALID", 0);
    const std::string on_node = variables.text("SLURM_STEP_TASKS_PER_NODE");  // "4", "4(x2)", "4(x2),3"
    launch.local_size = std::max<int64_t>(1, std::atoll(on_node.c_str()));
    job = variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID");
    if (launch.address.empty()) {
      const char* list = variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
      launch.address = first_host(variables.text(list));
    }
  } else {
    return std::nullopt;
  }
  check(launch);
  if (launch.address.empty() && launch.local_size == launch.size) launch.address = "127.0.0.1";
  if (launch.port == 0) launch.port = port_for(job);
  return launch;
}

}  // namespace easydel
