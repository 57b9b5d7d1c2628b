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
  std::optional<int64_t> devices;  // ranks, as threads; under mpirun or torchrun the launcher sets the number
  std::vector<int64_t> mesh;       // empty: the config's

  bool names_a_mesh() const { return devices.value_or(1) > 1 || !mesh.empty(); }
};

void add_device_options(CLI::App& command, DeviceOptions& options);

// The number of ranks: the launcher's, --devices, the product of --mesh, or 1. UsageError if two of them
// contradict each other, or if --mesh has a -1 without --devices.
int64_t rank_count(const DeviceOptions& options);

// UsageError if ranks are threads and the device is a GPU.
void require_threads_possible(const DeviceOptions& options, int64_t ranks, bool is_cpu);

// From --device, --dtype and --param-dtype; empty ones get the machine's defaults. UsageError on invalid names.
struct ComputeFlags {
  std::string device, dtype, param_dtype;
  bool is_training = false;
};
ComputeSettings to_compute_settings(const ComputeFlags& flags);

std::string mesh_text(const DeviceOptions& options);  // "--mesh 1,2,1,2,1"

}  // namespace easydel::cli
