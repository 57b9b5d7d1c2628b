// Differentiable collectives. The loss is one number for all ranks: if every rank of a group has the same values, it
// has the same gradient, and if each has a term of a sum or a part, the gradient of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "easydel/operations/linear/weight_access.h"
#include "easydel/sharding/collectives/group.h"

namespace easydel::collectives {

// The same values for all members, which then compute different things: gradients are summed.
at::Tensor identity_forward_sum_backward(const at::Tensor& x, const Group& group);
// The sum of the members' terms, for all of them. Gradients pass through unchanged.
at::Tensor sum(const at::Tensor& x, const Group& group);
// Concatenates the members' parts along `dim`, of sizes[r] for member r, for members that then compute the same. A
// member's gradient is that of its part.
at::Tensor gather(const at::Tensor& x, int64_t dim, const std::vector<int64_t>& sizes, const Group& group);
// As Group::all_to_all; gradients take the reverse path.
at::Tensor all_to_all(const at::Tensor& rows, const std::vector<int64_t>& in_splits,
                      const std::vector<int64_t>& out_splits, const Group& group);
// The part of a weight used in computation. For operations that do not keep the weight for backward; the others take
// the access itself.
at::Tensor gather_weight(const at::Tensor& part, at::ScalarType dtype, const operations::WeightAccessPtr& access);

}  // namespace easydel::collectives
