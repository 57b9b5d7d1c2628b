// A file that torch.save wrote, mapped: its tensors by name, and nothing in it executed.
#pragma once

#include <c10/core/Storage.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "easydel/core/files/mapped_file.h"
#include "easydel/io/tensor_source.h"
#include "easydel/io/torch/torch_archive.h"

namespace easydel {

// Tensors are views of the map, strided as they were saved; those that shared a storage share it again. Data that is
// compressed or unaligned, as programs other than torch may write it, is copied when read. See TorchArchive for what
// is accepted and what is rejected.
class TorchFile final : public TensorSource {
 public:
  static std::shared_ptr<const TorchFile> open(const std::filesystem::path& path);

  const MappedFile* map() const override { return file_.get(); }

 private:
  TorchFile(std::shared_ptr<const MappedFile> file, TorchArchive archive);
  at::Tensor load(const TensorInfo& info) const override;
  c10::Storage storage(std::size_t index) const;
  c10::Storage make_storage(const ZipEntry& entry) const;

  std::shared_ptr<const MappedFile> file_;
  TorchArchive archive_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::size_t, c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;  // those in use
};

}  // namespace easydel
