#include "easydel/layers/parameter.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

std::vector<int64_t> sizes_of(const std::vector<Dim>& dims) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  return sizes;
}

}  // namespace

void Initializer::fill(const at::Tensor& out, RandomKey key, const Region* region) const {
  const at::NoGradGuard no_grad;
  switch (kind) {
    case Kind::Constant: out.fill_(value); break;
    case Kind::Normal: fill_normal(out, key, 0, value, region); break;
    case Kind::Uniform: fill_uniform(out, key, -value, value, region); break;
    case Kind::TruncatedNormal: fill_truncated_normal(out, key, 0, value, -2, 2, region); break;
  }
}

Parameter::Parameter(std::vector<Dim> dims, Initializer init)
    : dims(std::move(dims)), shape(sizes_of(this->dims)), init(init) {
  to_meta(float32);
}

void Parameter::to_meta(DType dtype) { value_ = at::empty(shape, at::TensorOptions(dtype).device(at::kMeta)); }

void Parameter::bind(at::Tensor value) {
  require<ShapeError>(value.sizes() == at::IntArrayRef(shape), "[Parameter] a tensor of shape ", at::IntArrayRef(shape),
                      " is needed; got ", value.sizes(), ".");
  if (!value.is_meta() && value.is_floating_point() && value.is_leaf() && value.requires_grad() != trainable) {
    value.requires_grad_(trainable);
  }
  value_ = std::move(value);
}

FileLayout Parameter::layout_in_files(const std::string& path) const {
  return file_layout ? file_layout(path) : whole_layout(path);
}

FileLayout Parameter::whole_layout(const std::string& path) const {
  return {{path, std::vector<int64_t>(shape.size(), 0), shape, shape}};
}

}  // namespace easydel
