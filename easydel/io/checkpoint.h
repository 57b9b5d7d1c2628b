// The tensors of a model, over as many files as they were saved in.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "easydel/io/tensor_source.h"

namespace easydel {

class Checkpoint final : public TensorSource {
 public:
  // A file (.safetensors, what torch.save wrote as .bin, .pth or .pt, .gguf, or an index.json that lists several), or a
  // directory that is searched in this order: model.safetensors, model.safetensors.index.json, the same for
  // pytorch_model.bin, or a single readable file of any name. Tensors that the index does not list are ignored with a
  // warning.
  //
  // IoError when something is missing, FormatError when a file is damaged, the index names a file outside its own
  // directory, or a file lacks a tensor that the index lists for it.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& path);

  const std::vector<std::shared_ptr<const TensorSource>>& files() const { return files_; }
  const TensorSource& file_of(const TensorInfo& info) const;  // of an element of infos()
  void copy(const at::Tensor& view, const at::Tensor& out) const override;

  // True when every file is in the page cache. To read every tensor of a file that is not, `fetch` each in the order of
  // infos().
  bool is_cached() const;
  void prefault_pages() const;  // of all files, except small ones

 private:
  struct Place {
    const TensorSource* file;
    const TensorInfo* info;  // as in the file
  };
  struct Contents {
    std::vector<std::shared_ptr<const TensorSource>> files;
    std::vector<TensorInfo> infos;
    std::vector<Place> places;  // of each info, in order
  };
  Checkpoint(std::string where, std::shared_ptr<const TensorSource> file);
  Checkpoint(std::string where, Contents contents);
  static Contents read_index(const std::filesystem::path& path);
  Place place_of(const TensorInfo& info) const;
  at::Tensor load(const TensorInfo& info) const override;
  at::Tensor load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const override;

  std::vector<std::shared_ptr<const TensorSource>> files_;
  std::vector<Place> places_;  // empty: all are those of the one file
};

}  // namespace easydel
