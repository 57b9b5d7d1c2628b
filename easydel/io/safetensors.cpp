#include "easydel/io/safetensors.h"

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
  const std::vector<int64_t> starts(info.shape.size(), 0);
  return load_slice(info, starts, info.shape);
}

at::Tensor SafetensorsFile::load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  if (info.nbytes == 0) return at::empty(sizes, info.dtype);
  void* data = file_->writable_bytes().data() + info.offset;
  const auto keep_map = [file = file_](void*) {};
  const auto element = static_cast<int64_t>(c10::elementSize(info.dtype));
  if (info.offset % element == 0) {
    return narrowed(at::from_blob(data, info.shape, keep_map, at::TensorOptions(info.dtype)), starts, sizes);
  }
  std::vector<int64_t> byte_shape = info.shape;
  byte_shape.push_back(element);
  const at::Tensor bytes = at::from_blob(data, byte_shape, keep_map, at::TensorOptions(DType::Byte));
  return narrowed(bytes, starts, sizes).clone(at::MemoryFormat::Contiguous).view(info.dtype).squeeze(-1);
}

}  // namespace easydel
