#include "easydel/io/gguf/gguf_file.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/gguf/gguf_dequantize.h"

namespace easydel {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements per thread, at least

std::vector<TensorInfo> infos_of(const GgufContainer& container) {
  std::vector<TensorInfo> infos;
  infos.reserve(container.tensors().size());
  for (const GgufTensor& tensor : container.tensors()) infos.push_back(tensor.info);
  return infos;
}

// The row of the full tensor that is row `index` of the slice; a row spans the last dimension.
int64_t source_row(int64_t index, at::IntArrayRef shape, at::IntArrayRef starts, at::IntArrayRef sizes) {
  int64_t row = 0, stride = 1;
  for (std::size_t d = shape.size() - 1; d-- > 0;) {
    row += (starts[d] + index % sizes[d]) * stride;
    index /= sizes[d];
    stride *= shape[d];
  }
  return row;
}

}  // namespace

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  auto file = MappedFile::open(path, MapAccess::CopyOnWrite);
  GgufContainer container(file->bytes(), path.string());
  file->release();
  return std::shared_ptr<const GgufFile>(new GgufFile(std::move(file), std::move(container)));
}

GgufFile::GgufFile(std::shared_ptr<const MappedFile> file, GgufContainer container)
    : TensorSource(file->path().string(), infos_of(container)),
      file_(std::move(file)),
      container_(std::move(container)) {}

at::Tensor GgufFile::load(const TensorInfo& info) const {
  const std::vector<int64_t> starts(info.shape.size(), 0);
  return load_slice(info, starts, info.shape);
}

at::Tensor GgufFile::load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  const GgmlType& type = *container_.tensors()[static_cast<std::size_t>(&info - infos().data())].type;
  require<NotSupportedError>(
      type.is_readable, "[", where(), "] tensor ", quoted(info.name), " is stored as ", type.name,
      ", which is not supported. Convert the file to Q8_0 with llama-quantize --allow-requantize.");
  if (info.nbytes == 0) return at::empty(sizes, info.dtype);
  if (!type.is_plain()) return dequantize(info, type, starts, sizes);
  at::Tensor part = at::from_blob(
      file_->writable_bytes().data() + info.offset, info.shape, [file = file_](void*) {},
      at::TensorOptions(info.dtype));
  for (std::size_t d = 0; d < sizes.size(); ++d) part = part.narrow(static_cast<int64_t>(d), starts[d], sizes[d]);
  return part;
}

at::Tensor GgufFile::dequantize(const TensorInfo& info, const GgmlType& type, at::IntArrayRef starts,
                                at::IntArrayRef sizes) const {
  // Whole blocks are decoded, and elements outside the slice on either side are cut off.
  const int64_t first_block = starts.back() / type.block_elements;
  const int64_t end_block = (starts.back() + sizes.back() + type.block_elements - 1) / type.block_elements;
  const int64_t row_blocks = info.shape.back() / type.block_elements;
  std::vector<int64_t> decoded_sizes = sizes.vec();
  decoded_sizes.back() = (end_block - first_block) * type.block_elements;
  const at::Tensor decoded = at::empty(decoded_sizes, info.dtype);
  if (decoded.numel() == 0) return at::empty(sizes, info.dtype);

  // Each row is contiguous in the file. Parallel over blocks, not rows, so that one long row is split too.
  const std::byte* data = file_->bytes().data() + info.offset;
  auto* out = decoded.mutable_data_ptr<float>();
  const int64_t width = end_block - first_block;
  const int64_t total = decoded.numel() / type.block_elements;
  at::parallel_for(0, total, kGrain / type.block_elements, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t column = begin % width, count = std::min(width - column, end - begin);
      const int64_t row = source_row(begin / width, info.shape, starts, sizes);
      const std::byte* blocks = data + (row * row_blocks + first_block + column) * type.block_bytes;
      gguf_dequantize(type, blocks, count, out + begin * type.block_elements);
      begin += count;
    }
  });
  return decoded.narrow(-1, starts.back() - first_block * type.block_elements, sizes.back());
}

std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(model, ignored)) return model.extension() == ".gguf" ? std::optional(model) : std::nullopt;
  if (!fs::is_directory(model, ignored) || fs::exists(model / "config.json", ignored)) return std::nullopt;
  std::optional<fs::path> only;
  for (const std::string& name : list_directory(model)) {
    if (!name.ends_with(".gguf")) continue;
    if (only) return std::nullopt;
    only = model / name;
  }
  return only;
}

}  // namespace easydel
