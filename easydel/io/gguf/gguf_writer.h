// Writes a GGUF file, version 3, one tensor in memory at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "easydel/io/gguf/gguf_metadata.h"

namespace easydel {

class GgufWriter {
 public:
  GgufMetadata metadata;

  // A float tensor on any device, which `make` gives when it is written, in torch's order of dimensions. ConfigError
  // when the columns are no multiple of the type's blocks, or the type cannot be made here.
  void add_tensor(std::string name, std::vector<int64_t> shape, const GgmlType& type, std::function<at::Tensor()> make);

  // `path` stays as it is until the new file is complete and on disk.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    const GgmlType* type;
    std::function<at::Tensor()> make;
    int64_t nbytes() const;
  };
  std::vector<Tensor> tensors_;
};

}  // namespace easydel
