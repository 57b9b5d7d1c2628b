// A safetensors file, mapped: opening it reads the header, and a tensor costs memory only where it is touched.
#pragma once

#include <filesystem>
#include <memory>

#include "easydel/core/files/mapped_file.h"
#include "easydel/io/safetensors/safetensors_header.h"
#include "easydel/io/tensor_source.h"

namespace easydel {

// Tensors are views of the map, which lives as long as any of them. Writing to one copies the touched pages: the file
// never changes, but other tensors from the same SafetensorsFile have the new values. Data that is not aligned to its
// element size, as old writers produced, is copied instead.
//
// A file that is replaced (as our own writers do) stays readable through an open map. One that another program
// truncates in place does not: touching the lost part raises SIGBUS.
class SafetensorsFile final : public TensorSource {
 public:
  // IoError when the file cannot be opened; see parse_safetensors_header for errors in its content.
  static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path);

  const SafetensorsMetadata& metadata() const { return metadata_; }
  const MappedFile* map() const override { return file_.get(); }

 private:
  SafetensorsFile(std::shared_ptr<const MappedFile> file, SafetensorsHeader header);
  at::Tensor load(const TensorInfo& info) const override;
  at::Tensor load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const override;

  std::shared_ptr<const MappedFile> file_;
  SafetensorsMetadata metadata_;
};

}  // namespace easydel
