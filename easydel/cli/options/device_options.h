// --device, --devices and --mesh, the same on every command that runs a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/infra/config/compute_settings.h"

namespace CLI {
class App;
}

namespace easydel::cli {

struct DeviceOptions {
  std::string device;              // empty: compute_settings()'s
  std::optional<int64_t> devices;  // ranks, as threads; under mpirun or torchrun these say how many there are
  std::vector<int64_t> mesh;       // empty: the config's

  bool names_a_mesh() const { return devices.value_or(1) > 1 || !mesh.empty(); }
};

void add_device_options(CLI::App& command, DeviceOptions& options);

// The ranks that were asked for: a launcher's, --devices, the product of --mesh, or 1. UsageError when two of them
// contradict each other, and when --mesh has a -1 that nothing says the size of.
int64_t rank_count(const DeviceOptions& options);

// UsageError: threads share one GPU no more than processes do.
void require_threads_possible(const DeviceOptions& options, int64_t ranks, bool is_cpu);

// What --device, --dtype and --param-dtype say; empty ones are the machine's. UsageError on names that are none.
struct ComputeFlags {
  std::string device, dtype, param_dtype;
  bool is_training = false;
};
ComputeSettings to_compute_settings(const ComputeFlags& flags);

std::string mesh_text(const DeviceOptions& options);  // "--mesh 1,2,1,2,1"

}  // namespace easydel::cli
