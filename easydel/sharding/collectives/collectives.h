// Collectives that gradients flow through. The loss is one number for all ranks: where every rank of a group holds the
// same values it has the same gradient, and where each holds a term of a sum or a part, the gradient of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "easydel/operations/linear/weight_access.h"
#include "easydel/sharding/collectives/group.h"

namespace easydel::collectives {

// The same values for all members, who each do something else with them: gradients are summed.
at::Tensor identity_forward_sum_backward(const at::Tensor& x, const Group& group);
// Each member has a term: the sum, for all of them. Gradients are passed on as they are.
at::Tensor sum(const at::Tensor& x, const Group& group);
// Each member has a part along `dim`, of sizes[r] for member r: all of it, for members that go on to do the same. A
// member's gradient is its part's.
at::Tensor gather(const at::Tensor& x, int64_t dim, const std::vector<int64_t>& sizes, const Group& group);
// Rows to members and back, as Group::all_to_all.
at::Tensor all_to_all(const at::Tensor& rows, const std::vector<int64_t>& in_splits,
                      const std::vector<int64_t>& out_splits, const Group& group);
// What is computed with of a weight. For operations that do not keep the weight for backward; the others take the
// access itself.
at::Tensor gather_weight(const at::Tensor& part, at::ScalarType dtype, const operations::WeightAccessPtr& access);

}  // namespace easydel::collectives
