// Fresh memory in large pages where the system has them: most of the time that a copy to fresh memory takes goes into
// making its pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace easydel {

// As at::empty; on the CPU, from `min_bytes` on, in large pages.
at::Tensor empty_in_large_pages(at::IntArrayRef sizes, const at::TensorOptions& options, std::size_t min_bytes = 0);

}  // namespace easydel
