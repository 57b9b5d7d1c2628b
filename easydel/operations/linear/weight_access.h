// How an operation accesses a weight of which this rank stores only a part.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace easydel::operations {

// Forward and backward each gather what they compute with and drop it afterwards; autograd keeps only the part. Both
// are called by all ranks in the same order, even without tokens.
class WeightAccess {
 public:
  virtual ~WeightAccess() = default;
  virtual at::Tensor gather(const at::Tensor& part, at::ScalarType dtype) const = 0;  // in that type
  virtual at::Tensor reduce(const at::Tensor& gradient) const = 0;  // from the gathered weight's to that of the part
};

// Null: the weight is not sharded.
using WeightAccessPtr = std::shared_ptr<const WeightAccess>;

inline at::Tensor gather(const at::Tensor& part, at::ScalarType dtype, const WeightAccessPtr& access) {
  if (!part.defined()) return part;
  return access ? access->gather(part, dtype) : part.to(dtype);
}
inline at::Tensor reduce(const at::Tensor& gradient, const WeightAccessPtr& access) {
  return access && gradient.defined() ? access->reduce(gradient) : gradient;
}

}  // namespace easydel::operations
