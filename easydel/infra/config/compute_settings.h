// The default device and dtypes of a model: the same for YAML, the builder and every command.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "easydel/core/dtype.h"
#include "easydel/sharding/mesh/mesh.h"

namespace easydel {

struct ComputeSettings {
  at::Device device = at::kCPU;
  DType dtype = float32;        // what is computed in
  DType param_dtype = float32;  // what weights are stored in
};

struct ComputeOptions {
  std::optional<at::Device> device = {};  // a GPU where the build and the machine have one, else the CPU
  std::optional<DType> dtype = {};        // bfloat16 on a GPU, float32 on a CPU
  std::optional<DType> param_dtype = {};  // float32 for training, else what dtype is
  bool is_training = false;
};
ComputeSettings compute_settings(const ComputeOptions& given = {});

// cpu, cuda, gpu or cuda:1. ConfigError on any other name, and where there is no such device.
at::Device parse_device(const std::string& name);

// "computing in float32 on cpu, weights stored in float32, mesh dp=1 fsdp=1 ep=1 tp=1 sp=1"
std::string describe(const ComputeSettings& settings, const Mesh& mesh);

}  // namespace easydel
