// Tensors by name: the common interface of a safetensors file, a torch pickle, a GGUF file and a checkpoint of many
// files.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/text/name_index.h"
#include "easydel/io/tensor_info.h"

namespace easydel {

class MappedFile;

// Immutable once built, so that any number of threads may read. The tensors outlive the source.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  const std::string& where() const { return where_; }                     // named in errors: the path
  const std::vector<TensorInfo>& infos() const { return table_->infos; }  // in the order of the data
  std::vector<std::string> names() const;
  int64_t nbytes() const;  // of all tensors, as stored; tied tensors count once
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const TensorInfo* find(std::string_view name) const;  // null when absent
  const TensorInfo& info(std::string_view name) const;  // FormatError when absent, with the nearest name

  // Each throws FormatError when there is no such tensor. The result is on the CPU, may share memory with other tensors
  // from this source and is writable: the file never changes.
  at::Tensor tensor(std::string_view name) const;
  at::Tensor tensor(const TensorInfo& info) const { return load(info); }  // of an element of infos()
  // Elements starts[d] … starts[d] + sizes[d] of each dimension d; reads no others where the format allows it. May be
  // strided. ShapeError when the slice is not inside the tensor.
  at::Tensor slice(std::string_view name, at::IntArrayRef starts, at::IntArrayRef sizes) const;
  // The same, contiguous and in separate memory. Whether they see what was written to another tensor from this source,
  // or the file's content, is unspecified.
  at::Tensor read(std::string_view name) const;
  at::Tensor read_slice(std::string_view name, at::IntArrayRef starts, at::IntArrayRef sizes) const;
  // The same into existing memory: `view` is a tensor from this source, or a part of one, and `out` has its shape and
  // any dtype, device and strides.
  virtual void copy(const at::Tensor& view, const at::Tensor& out) const;

  // The file that tensors are views of; null if there is none, or more than one.
  virtual const MappedFile* map() const { return nullptr; }

 protected:
  // The index of the tensors. Sources of the same tensors share one.
  struct Table {
    std::vector<TensorInfo> infos;
    NameIndex index;
  };

  // FormatError when two tensors have one name.
  TensorSource(std::string where, std::vector<TensorInfo> infos);
  TensorSource(std::string where, const TensorSource& same) : where_(std::move(where)), table_(same.table_) {}

  // `info` is an element of infos(), and the slice is inside it.
  virtual at::Tensor load(const TensorInfo& info) const = 0;
  // By default the full tensor, narrowed.
  virtual at::Tensor load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const;

 private:
  std::string where_;
  std::shared_ptr<const Table> table_;
};

}  // namespace easydel
