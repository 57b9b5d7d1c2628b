// A safetensors file, mapped: opening it reads the header, and a tensor costs memory only where it is touched.
#pragma once

#include <filesystem>
#include <memory>

#include "easydel/core/files/mapped_file.h"
#include "easydel/io/safetensors/safetensors_header.h"
#include "easydel/io/tensor_source.h"

namespace easydel {

// Tensors are views of the map, which lives as long as one of them does. Writing to one copies the pages that it
// touches: the file never changes, but other tensors from the same SafetensorsFile see the new values. Data that does
// not lie at a multiple of its element size, which old writers made, is copied instead.
//
// A file that is replaced (as our own writers do) stays readable through an open map. One that another program
// shortens in place does not: the system ends a process that touches the lost part with SIGBUS.
class SafetensorsFile final : public TensorSource {
 public:
  // IoError when the file cannot be opened; see parse_safetensors_header for what is wrong inside.
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
