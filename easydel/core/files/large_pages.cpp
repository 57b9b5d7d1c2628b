#include "easydel/core/files/large_pages.h"

#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <cstdint>

namespace easydel {

at::Tensor empty_in_large_pages(at::IntArrayRef sizes, const at::TensorOptions& options, std::size_t min_bytes) {
  at::Tensor memory = at::empty(sizes, options);
#ifdef MADV_HUGEPAGE
  if (!memory.is_cpu() || memory.nbytes() < min_bytes) return memory;
  constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.mutable_data_ptr());
  const std::uintptr_t first = (begin + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = (begin + memory.nbytes()) / kLargePage * kLargePage;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace easydel
