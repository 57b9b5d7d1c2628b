// One weight of a module: its full shape, its initialization, its file layout, and its tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/random.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel {

// The initialization of a weight.
struct Initializer {
  enum class Kind { Constant, Normal, Uniform, TruncatedNormal };
  Kind kind = Kind::Constant;
  double value = 0;  // the constant, the standard deviation, or the bound of the uniform distribution

  static Initializer zeros() { return {Kind::Constant, 0}; }
  static Initializer ones() { return {Kind::Constant, 1}; }
  static Initializer normal(double stddev) { return {Kind::Normal, stddev}; }

  // Fills the part of the full tensor given by `region`, all of it without one.
  void fill(const at::Tensor& out, RandomKey key, const Region* region = nullptr) const;
};

// A tensor of a checkpoint and the box of a parameter that it contains: file [I, D] for weight[e, 0:I, :].
struct FilePiece {
  std::string name;
  std::vector<int64_t> starts, sizes;  // the box, in the parameter
  std::vector<int64_t> shape;          // of the tensor in the file; the same elements in the same order
};
using FileLayout = std::vector<FilePiece>;  // pieces that tile the parameter

class Parameter {
 public:
  Parameter(std::vector<Dim> dims, Initializer init);

  std::vector<Dim> dims;
  std::vector<int64_t> shape;  // of the full weight
  Initializer init;
  bool trainable = true;
  // The dtype of codes and scales, which are not cast with the model's parameters.
  std::optional<DType> fixed_dtype = {};
  // For a weight whose file layout differs from memory; empty: one tensor under the parameter's own path.
  std::function<FileLayout(const std::string& path)> file_layout;

  // On the meta device until the module is initialized or loaded: a shape and a dtype without memory. On a mesh, the
  // part that this rank stores.
  const at::Tensor& value() const { return value_; }
  const std::shared_ptr<const WeightSharding>& sharding() const { return sharding_; }  // null: one device
  const std::vector<int64_t>& stored_shape() const { return sharding_ ? sharding_->stored_shape() : shape; }
  // Moves it to a mesh, or from one mesh to another, or with null back to one device. A value with memory is gathered
  // and sliced, so all ranks call this together.
  void place(std::shared_ptr<const WeightSharding> sharding);
  // The full tensor, on every rank; the value itself on one device. All ranks call this together.
  at::Tensor whole() const;
  // Initializes the stored part: the same numbers on any mesh.
  void draw(RandomKey key, at::TensorOptions options);
  // ShapeError when the shape is not that of the stored part. Sets requires_grad for a trainable float weight.
  void bind(at::Tensor value);
  DType dtype_in(DType param_dtype) const { return fixed_dtype.value_or(param_dtype); }
  bool is_lazy() const { return value_.is_meta(); }
  void to_meta(DType dtype);

  FileLayout layout_in_files(const std::string& path) const;
  FileLayout whole_layout(const std::string& path) const;  // one tensor of that name

 private:
  at::Tensor value_;
  std::shared_ptr<const WeightSharding> sharding_;
};

}  // namespace easydel
