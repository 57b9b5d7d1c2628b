// The elements of a sharded weight that a rank counts, so that every element is counted once.
#pragma once

#include <memory>
#include <vector>

#include "easydel/optim/tree.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::optim {

// Several ranks may store the same elements: along axes that are not in the spec, and where key/value heads are shared.
// The first of them along each axis counts them.
struct Share {
  explicit Share(const WeightSharding& sharding);

  std::vector<int64_t> shape;   // of the full weight
  std::vector<AxisNames> axes;  // for each dimension, its mesh axes
  Slices counted;               // for each dimension, what this rank counts, as indices in its own memory
  bool counts = true;           // false: another rank stores the same and counts it
  bool counts_all_it_stores = true;

  int64_t numel() const;
};
// Computed once for each sharding.
std::shared_ptr<const Share> share_of(const std::shared_ptr<const WeightSharding>& sharding);

std::vector<int64_t> whole_shape(const at::Tensor& part, const std::shared_ptr<const WeightSharding>& sharding);
// The sum over a dimension of the full weight, on every rank that stores a part of it: [..., 1, ...].
at::Tensor sum_over(const at::Tensor& part, int64_t dim, const std::shared_ptr<const WeightSharding>& sharding);
// A sum over all ranks of the mesh, in place; no-op on one device.
void all_reduce(const at::Tensor& tensor, const Placement& placement);

// [n] float64: for each tensor the sum of the squares of the elements that this rank counts. all_reduce makes it that
// of the full tensor.
at::Tensor sums_of_squares(const std::vector<std::string>& paths, const Tensors& tensors, const Placement& placement);

}  // namespace easydel::optim
