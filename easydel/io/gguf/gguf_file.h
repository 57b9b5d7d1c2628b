// A GGUF file, mapped: its metadata, and its tensors by name, as floats where they are quantized.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "easydel/core/files/mapped_file.h"
#include "easydel/io/gguf/gguf.h"
#include "easydel/io/tensor_source.h"

namespace easydel {

// Plain tensors (F32, F16, BF16, F64, I8 … I64) are views of the map. Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K
// are dequantized to float32 when read; a slice decodes only its own blocks. Other types are listed, but reading one
// is a NotSupportedError. See GgufContainer for what is checked.
class GgufFile final : public TensorSource {
 public:
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);

  const GgufContainer& container() const { return container_; }
  const MappedFile* map() const override { return file_.get(); }

 private:
  GgufFile(std::shared_ptr<const MappedFile> file, GgufContainer container);
  at::Tensor load(const TensorInfo& info) const override;
  at::Tensor load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const override;
  at::Tensor dequantize(const TensorInfo& info, const GgmlType& type, at::IntArrayRef starts,
                        at::IntArrayRef sizes) const;

  std::shared_ptr<const MappedFile> file_;
  GgufContainer container_;
};

// The GGUF file of a model: the path itself, or the only one in a directory without a config.json.
std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& model);

}  // namespace easydel
