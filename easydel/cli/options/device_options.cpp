#include "easydel/cli/options/device_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/sharding/world/world.h"

namespace easydel::cli {
namespace {

DType parse_float(const std::string& flag, const std::string& name) {
  const DType dtype = parse_dtype(name);
  require<UsageError>(at::isFloatingType(dtype), flag, " must be a floating-point dtype; got ", name, ".");
  return dtype;
}

}  // namespace

void add_device_options(CLI::App& command, DeviceOptions& options) {
  command
      .add_option("--device", options.device, "cpu, cuda or cuda:1 (default: a GPU if available)")
      // Checked before anything is read or downloaded.
      ->each([](const std::string& name) { to_compute_settings({.device = name}); });
  command
      .add_option("--mesh", options.mesh,
                  "Mesh of devices along dp,fsdp,ep,tp,sp (or dp,fsdp,tp,sp); one size may be -1 if --devices is given "
                  "(default: the config's)")
      ->delimiter(',')
      ->type_name("DP,FSDP,EP,TP,SP");
  command
      .add_option("--devices", options.devices,
                  "Number of devices, each a thread of this process (default: the size of --mesh); under a launcher "
                  "such as mpirun, the number of its ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

ComputeSettings to_compute_settings(const ComputeFlags& flags) {
  ComputeOptions given{.is_training = flags.is_training};
  try {
    if (!flags.device.empty()) given.device = parse_device(flags.device);
    if (!flags.dtype.empty()) given.dtype = parse_float("--dtype", flags.dtype);
    if (!flags.param_dtype.empty()) given.param_dtype = parse_float("--param-dtype", flags.param_dtype);
  } catch (const Error& error) {
    fail<UsageError>(error.what());
  }
  return compute_settings(given);
}

std::string mesh_text(const DeviceOptions& options) {
  std::string text = "--mesh ";
  for (std::size_t i = 0; i < options.mesh.size(); ++i) text += concat(i ? "," : "", options.mesh[i]);
  return text;
}

int64_t rank_count(const DeviceOptions& options) {
  const int64_t launched = World::current()->size();
  require<UsageError>(launched == 1 || options.devices.value_or(launched) == launched, "--devices ",
                      options.devices.value_or(0), " contradicts the ", launched, " ranks started by the launcher.");
  if (launched > 1) return launched;
  if (options.devices) return *options.devices;
  int64_t product = 1;
  for (const int64_t size : options.mesh) {
    require<UsageError>(size != -1, mesh_text(options),
                        " has a -1: the number of devices is needed too, as in --devices 4.");
    product = std::min(product * std::max<int64_t>(size, 1), int64_t{1} << 20);
  }
  return product;
}

void require_threads_possible(const DeviceOptions& options, int64_t ranks, bool is_cpu) {
  require<UsageError>(
      is_cpu || ranks == 1 || World::current()->size() > 1,
      options.devices ? concat("--devices ", *options.devices) : mesh_text(options),
      " runs ranks as threads, which is supported only with --device cpu. For GPUs, start one process each: "
      "mpirun -np ",
      ranks, " easydel …");
}

}  // namespace easydel::cli
