// Allocates memory in huge pages where available: a copy into newly allocated memory spends most of its time on page
// faults.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace easydel {

// As at::empty; on the CPU, allocations of `min_bytes` or more use huge pages.
at::Tensor empty_in_large_pages(at::IntArrayRef sizes, const at::TensorOptions& options, std::size_t min_bytes = 0);

}  // namespace easydel
