#include "easydel/io/read_view.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace easydel {
namespace {

constexpr int64_t kGrain = int64_t{4} << 20;   // bytes per thread, at least
constexpr int64_t kMinRun = int64_t{1} << 20;  // shorter runs of a strided view are faster through the map

// From the first byte to the last, including gaps left by strides.
std::span<const std::byte> extent(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {static_cast<const std::byte*>(tensor.const_data_ptr()),
          static_cast<std::size_t>(last + 1) * tensor.element_size()};
}

// The dimensions from here on are contiguous in the file.
int64_t first_dense_dim(const at::Tensor& view) {
  int64_t dim = view.dim(), stride = 1;
  while (dim > 0 && (view.size(dim - 1) == 1 || view.stride(dim - 1) == stride)) stride *= view.size(--dim);
  return dim;
}

}  // namespace

void fetch(const at::Tensor& view) {
  if (view.is_cpu()) touch_pages(extent(view));
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
