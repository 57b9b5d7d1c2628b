#include "easydel/io/torch/torch_file.h"

#include <ATen/ops/empty.h>

namespace easydel {
namespace {

constexpr std::size_t kAlignment = 16;  // of the widest element, a complex double

std::vector<TensorInfo> infos_of(const TorchArchive& archive) {
  std::vector<TensorInfo> infos;
  infos.reserve(archive.tensors().size());
  for (const TorchTensor& tensor : archive.tensors()) infos.push_back(tensor.info);
  return infos;
}

// A storage over memory that the owner keeps alive.
template <class Owner>
c10::Storage storage_over(std::byte* data, std::size_t size, Owner owner) {
  auto* context = new Owner(std::move(owner));
  const auto release = [](void* kept) { delete static_cast<Owner*>(kept); };
  return c10::Storage(c10::Storage::use_byte_size_t(), size, at::DataPtr(data, context, release, at::kCPU),
                      /*allocator=*/nullptr, /*resizable=*/false);
}

}  // namespace

std::shared_ptr<const TorchFile> TorchFile::open(const std::filesystem::path& path) {
  auto file = MappedFile::open(path, MapAccess::CopyOnWrite);
  TorchArchive archive(file->bytes(), path.string());
  file->release();
  return std::shared_ptr<const TorchFile>(new TorchFile(std::move(file), std::move(archive)));
}

TorchFile::TorchFile(std::shared_ptr<const MappedFile> file, TorchArchive archive)
    : TensorSource(file->path().string(), infos_of(archive)), file_(std::move(file)), archive_(std::move(archive)) {}

at::Tensor TorchFile::load(const TensorInfo& info) const {
  const TorchTensor& tensor = archive_.tensors()[static_cast<std::size_t>(&info - infos().data())];
  if (info.numel() == 0) return at::empty(info.shape, info.dtype);
  return at::empty({0}, info.dtype).set_(storage(tensor.storage), tensor.storage_offset, info.shape, tensor.strides);
}

c10::Storage TorchFile::storage(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  const auto known = storages_.find(index);
  if (known != storages_.end()) {
    if (auto in_use = known->second.lock()) return c10::Storage(std::move(in_use));
  }
  c10::Storage made = make_storage(archive_.zip().entries()[index]);
  storages_.insert_or_assign(index, made.getWeakStorageImpl());
  return made;
}

c10::Storage TorchFile::make_storage(const ZipEntry& entry) const {
  std::vector<std::byte> copy;
  if (entry.deflated) {
    copy = archive_.zip().inflate(entry);
  } else {
    const std::span<const std::byte> bytes = archive_.zip().stored_bytes(entry);
    const std::size_t offset = static_cast<std::size_t>(bytes.data() - file_->bytes().data());
    if (offset % kAlignment == 0) return storage_over(file_->writable_bytes().data() + offset, bytes.size(), file_);
    copy.assign(bytes.begin(), bytes.end());
  }
  std::byte* data = copy.data();
  const std::size_t size = copy.size();
  return storage_over(data, size, std::move(copy));
}

}  // namespace easydel
