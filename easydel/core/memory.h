// How much memory there is, and memory that costs nothing until it is written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace easydel {

// Bytes that can still be allocated on a device; nothing where the system does not say.
std::optional<int64_t> available_memory(at::Device device);

// Bytes that tensors hold on a GPU, or that the process has resident: now, and at most so far.
int64_t used_memory(at::Device device);
int64_t peak_memory(at::Device device);

// As at::zeros; on the CPU the system gives pages when they are first written.
at::Tensor zeros_on_demand(at::IntArrayRef sizes, const at::TensorOptions& options);

// For a program that takes and frees the same memory over and over, as training does: what was freed stays with the
// process, where it would go back to the system and be zeroed anew at every step.
void keep_freed_memory();

}  // namespace easydel
