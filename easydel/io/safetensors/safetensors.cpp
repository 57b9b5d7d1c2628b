#include "easydel/io/safetensors/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

namespace easydel {
namespace {

at::Tensor narrowed(at::Tensor tensor, at::IntArrayRef starts, at::IntArrayRef sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (sizes[d] != tensor.size(dim)) tensor = tensor.narrow(dim, starts[d], sizes[d]);
  }
  return tensor;
}

// Keeps the map alive. at::from_blob does the same with two more allocations per tensor.
at::Tensor view_of(std::shared_ptr<const MappedFile> file, void* data, at::IntArrayRef shape, DType dtype) {
  using Owner = std::shared_ptr<const MappedFile>;
  return at::for_blob(data, shape)
      .context(new Owner(std::move(file)), [](void* owner) { delete static_cast<Owner*>(owner); })
      .options(at::TensorOptions(dtype))
      .make_tensor();
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  auto file = MappedFile::open(path, MapAccess::CopyOnWrite);
  SafetensorsHeader header = parse_safetensors_header(file->bytes(), path.string());
  file->release();
  return std::shared_ptr<const SafetensorsFile>(new SafetensorsFile(std::move(file), std::move(header)));
}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const MappedFile> file, SafetensorsHeader header)
    : TensorSource(file->path().string(), std::move(header.tensors)),
      file_(std::move(file)),
      metadata_(std::move(header.metadata)) {}

at::Tensor SafetensorsFile::load(const TensorInfo& info) const {
  return load_slice(info, {}, info.shape);  // the full tensor, so the starts are not used
}

at::Tensor SafetensorsFile::load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  if (info.nbytes == 0) return at::empty(sizes, info.dtype);
  void* data = file_->writable_bytes().data() + info.offset;
  const auto element = static_cast<int64_t>(c10::elementSize(info.dtype));
  if (info.offset % element == 0) return narrowed(view_of(file_, data, info.shape, info.dtype), starts, sizes);
  std::vector<int64_t> byte_shape = info.shape;
  byte_shape.push_back(element);
  const at::Tensor bytes = view_of(file_, data, byte_shape, DType::Byte);
  return narrowed(bytes, starts, sizes).clone(at::MemoryFormat::Contiguous).view(info.dtype).squeeze(-1);
}

}  // namespace easydel
