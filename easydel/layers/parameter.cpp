#include "easydel/layers/parameter.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include "easydel/core/error.h"
#include "easydel/core/files/large_pages.h"
#include "easydel/operations/kernels/cuda/fused.h"

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
    case Kind::Normal:
      if (!operations::cuda_fused::draw_normal(out, key, 0, value, region)) fill_normal(out, key, 0, value, region);
      break;
    case Kind::Uniform: fill_uniform(out, key, -value, value, region); break;
    case Kind::TruncatedNormal: fill_truncated_normal(out, key, 0, value, -2, 2, region); break;
  }
}

Parameter::Parameter(std::vector<Dim> dims, Initializer init)
    : dims(std::move(dims)), shape(sizes_of(this->dims)), init(init) {
  to_meta(float32);
}

// Bypasses the dispatcher, which would dominate: a model has thousands of these before it has any weight.
void Parameter::to_meta(DType dtype) { value_ = at::detail::empty_meta(stored_shape(), dtype); }

void Parameter::bind(at::Tensor value) {
  require<ShapeError>(value.sizes() == at::IntArrayRef(stored_shape()), "[Parameter] expected a tensor of shape ",
                      at::IntArrayRef(stored_shape()), "; got ", value.sizes(), ".");
  if (!value.is_meta() && value.is_floating_point() && value.is_leaf() && value.requires_grad() != trainable) {
    value.requires_grad_(trainable);
  }
  value_ = std::move(value);
}

void Parameter::place(std::shared_ptr<const WeightSharding> sharding) {
  const at::NoGradGuard no_grad;
  if (is_lazy()) {
    const DType dtype = value_.scalar_type();
    sharding_ = std::move(sharding);
    return to_meta(dtype);
  }
  at::Tensor value = whole();
  // A part gets its own memory, so that the full tensor can be released.
  if (sharding && !sharding->is_whole()) value = sharding->part_of(value).clone(at::MemoryFormat::Contiguous);
  sharding_ = std::move(sharding);
  bind(std::move(value));
}

at::Tensor Parameter::whole() const {
  return sharding_ && !sharding_->is_whole() && !is_lazy() ? sharding_->gather_whole(value_) : value_.detach();
}

void Parameter::draw(RandomKey key, at::TensorOptions options) {
  const at::Tensor value = empty_in_large_pages(stored_shape(), options);
  if (!sharding_ || sharding_->is_whole()) {
    init.fill(value, key);
  } else {
    // The boxes of the full tensor in order, and the position of each in the part.
    const Slices& held = sharding_->stored();
    for_boxes(held, [&](const std::vector<Interval>& box) {
      at::Tensor place = value;
      Region region{shape, {}};
      for (std::size_t d = 0; d < box.size(); ++d) {
        const Interval at = locate({box[d]}, held[d])[0];
        place = place.narrow(static_cast<int64_t>(d), at.begin, at.size());
        region.offset.push_back(box[d].begin);
      }
      init.fill(place, key, &region);
    });
  }
  bind(value);
}

FileLayout Parameter::layout_in_files(const std::string& path) const {
  return file_layout ? file_layout(path) : whole_layout(path);
}

FileLayout Parameter::whole_layout(const std::string& path) const {
  FileLayout layout;
  layout.push_back({path, std::vector<int64_t>(shape.size(), 0), shape, shape});
  return layout;
}

}  // namespace easydel
