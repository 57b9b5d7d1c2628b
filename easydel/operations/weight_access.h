// How an operation reaches a weight of which this rank holds a part only.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace easydel::operations {

// Forward and backward each gather what they compute with and drop it afterwards; what autograd keeps is the part. Both
// are called by all ranks in the same order, tokens or not.
class WeightAccess {
 public:
  virtual ~WeightAccess() = default;
  virtual at::Tensor gather(const at::Tensor& part) const = 0;
  virtual at::Tensor reduce(const at::Tensor& gradient) const = 0;  // of what gather gave, to that of the part
};

// Null: the weight is whole.
using WeightAccessPtr = std::shared_ptr<const WeightAccess>;

inline at::Tensor gather(const at::Tensor& part, const WeightAccessPtr& access) {
  return access && part.defined() ? access->gather(part) : part;
}
inline at::Tensor reduce(const at::Tensor& gradient, const WeightAccessPtr& access) {
  return access && gradient.defined() ? access->reduce(gradient) : gradient;
}

}  // namespace easydel::operations
