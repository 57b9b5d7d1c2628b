#include "easydel/infra/config/compute_settings.h"

#include <ATen/Context.h>

#include "easydel/core/device.h"
#include "easydel/core/error.h"

namespace easydel {

ComputeSettings compute_settings(const ComputeOptions& given) {
  ComputeSettings settings;
  settings.device = given.device.value_or(at::hasCUDA() ? at::kCUDA : at::kCPU);
  settings.dtype = given.dtype.value_or(settings.device.is_cuda() ? bfloat16 : float32);
  settings.param_dtype = given.param_dtype.value_or(given.is_training ? float32 : settings.dtype);
  return settings;
}

at::Device parse_device(const std::string& name) {
  const auto parse = [&]() -> std::optional<at::Device> {
    try {
      const at::Device device(name == "gpu" ? "cuda" : name);
      return device.is_cpu() || device.is_cuda() ? std::optional(device) : std::nullopt;
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  };
  const std::optional<at::Device> device = parse();
  require<ConfigError>(device.has_value(), "a device is cpu, cuda or cuda:1; got \"", name, "\".");
  require_device(*device);
  return *device;
}

std::string describe(const ComputeSettings& settings, const Mesh& mesh) {
  return concat("computing in ", dtype_name(settings.dtype), " on ", settings.device.str(), ", weights stored in ",
                dtype_name(settings.param_dtype), ", mesh ", mesh.to_string());
}

}  // namespace easydel
