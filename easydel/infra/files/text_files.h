// The text part of a multimodal checkpoint, under the names of the text family. The others' tensors are not read.
#pragma once

#include <filesystem>
#include <memory>

#include "easydel/io/tensor_source.h"

namespace easydel {

struct BaseConfig;

class TextFiles final : public TensorSource {
 public:
  static std::shared_ptr<const TextFiles> open(std::shared_ptr<const TensorSource> whole);
  void copy(const at::Tensor& view, const at::Tensor& out) const override { whole_->copy(view, out); }

 private:
  struct Contents {
    std::vector<TensorInfo> infos;
    std::vector<const TensorInfo*> places;  // of each, in the whole
  };
  TextFiles(std::shared_ptr<const TensorSource> whole, Contents contents);
  const TensorInfo& place_of(const TensorInfo& info) const;
  at::Tensor load(const TensorInfo& info) const override { return whole_->tensor(place_of(info)); }
  at::Tensor load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const override;

  std::shared_ptr<const TensorSource> whole_;
  std::vector<const TensorInfo*> places_;
};

// Whether the files of a directory are of a multimodal model, and this is the config of its text.
bool is_text_part(const BaseConfig& config, const std::filesystem::path& directory);

// As in transformers: a config that ties the embeddings to a head that the files have, with other numbers, is wrong.
void untie_different_head(BaseConfig& config, const TensorSource& files);

}  // namespace easydel
