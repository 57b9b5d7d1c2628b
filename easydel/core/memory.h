// Available memory, and memory that is allocated lazily.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace easydel {

// Bytes that can still be allocated on a device; nothing where the system does not say.
std::optional<int64_t> available_memory(at::Device device);

// Bytes that tensors use on a GPU, or the process's resident memory: current and peak.
int64_t used_memory(at::Device device);
int64_t peak_memory(at::Device device);

// x on the device; what comes from the CPU travels through pinned memory, without waiting for a GPU's earlier work.
at::Tensor copy_to(const at::Tensor& x, at::Device device);

// As at::zeros; on the CPU, pages are allocated when they are first written.
at::Tensor zeros_on_demand(at::IntArrayRef sizes, const at::TensorOptions& options);

// For a program that allocates and frees the same memory over and over, as training does: freed memory stays with the
// process instead of being returned to the system and zeroed again at every step.
void keep_freed_memory();

}  // namespace easydel
