#include "easydel/io/read_view.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <algorithm>

namespace easydel {
namespace {

constexpr int64_t kGrain = int64_t{4} << 20;   // bytes that are worth a thread
constexpr int64_t kMinRun = int64_t{1} << 20;  // shorter pieces of a strided view come quicker through the map

// From the first byte to the last, with what strides leave out.
std::span<const std::byte> extent(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {static_cast<const std::byte*>(tensor.const_data_ptr()),
          static_cast<std::size_t>(last + 1) * tensor.element_size()};
}

// The dimensions from here on lie in the file as one piece.
int64_t first_dense_dim(const at::Tensor& view) {
  int64_t dim = view.dim(), stride = 1;
  while (dim > 0 && (view.size(dim - 1) == 1 || view.stride(dim - 1) == stride)) stride *= view.size(--dim);
  return dim;
}

}  // namespace

void fetch(const at::Tensor& view) {
  if (view.is_cpu()) touch_pages(extent(view));
}

at::Tensor empty_in_large_pages(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor memory = at::empty(sizes, options);
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.mutable_data_ptr());
  const std::uintptr_t first = (begin + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = (begin + memory.nbytes()) / kLargePage * kLargePage;
  if (memory.is_cpu() && first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
  return memory;
}

void read_view(const MappedFile& file, const at::Tensor& view, const at::Tensor& out) {
  const std::span<const std::byte> bytes = extent(view);
  const bool is_plain = out.is_cpu() && out.is_contiguous() && out.scalar_type() == view.scalar_type();
  const bool is_mapped = !bytes.empty() && file.contains(bytes.data()) && file.contains(&bytes.back());
  const int64_t dense = first_dense_dim(view);
  int64_t run = static_cast<int64_t>(view.element_size());
  for (int64_t d = dense; d < view.dim(); ++d) run *= view.size(d);
  const bool is_long = dense == 0 || run >= kMinRun;
  const std::optional<FileReader> reader =
      is_plain && is_mapped && is_long ? file.reader() : std::optional<FileReader>();
  if (!reader) {
    out.copy_(view);
    return;
  }
  const auto offset = static_cast<std::size_t>(bytes.data() - file.bytes().data());
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  at::parallel_for(0, static_cast<int64_t>(out.nbytes()), kGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t elements = 0, outer = begin / run;  // where this run starts in the file
      for (int64_t d = dense; d-- > 0; outer /= view.size(d)) elements += outer % view.size(d) * view.stride(d);
      const int64_t into_run = begin % run, count = std::min(run - into_run, end - begin);
      const std::size_t from = offset + elements * view.element_size() + into_run;
      reader->read(from, {to + begin, static_cast<std::size_t>(count)});
      begin += count;
    }
  });
}

}  // namespace easydel
