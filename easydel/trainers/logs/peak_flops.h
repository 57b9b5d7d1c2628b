// What a GPU can compute at most, as its maker states it.
#pragma once

#include <optional>
#include <string_view>

#include "easydel/infra/base_module.h"

namespace easydel {

// Dense operations a second of matrix products in the model's dtype, on its device. Nothing for a GPU that is not in
// the table, and nothing for a CPU, for which no such figure is published.
std::optional<double> peak_flops(const BaseModule& model);

// The same, by the name that CUDA reports. With tf32, products in float32 use the tensor cores.
std::optional<double> peak_flops_of_gpu(std::string_view name, DType dtype, bool tf32);

}  // namespace easydel
