// An optimizer state with its own sharding (ZeRO): the step is taken in the layout of the state, and the parameters are
// gathered from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "easydel/optim/transformation.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::optim {

using ShardingPtr = std::shared_ptr<const WeightSharding>;  // null: replicated

bool same_layout(const ShardingPtr& a, const ShardingPtr& b);  // of one tensor
// Converts this rank's part of a tensor to another layout: the input, a view of it if the rank has the data already, or
// new memory. All ranks call this together.
at::Tensor relayout(const at::Tensor& part, const ShardingPtr& from, const ShardingPtr& to);

// f(path, leaf) for every leaf.
void for_leaves(OptState& state, const std::function<void(const std::string& path, OptState::Leaf& leaf)>& f);
void for_leaves(const OptState& state,
                const std::function<void(const std::string& path, const OptState::Leaf& leaf)>& f);

// The layout of a step: each parameter as the first leaf of its shape, or its own layout if it has none. Maps paths to
// full shapes.
using Shapes = std::map<std::string, std::vector<int64_t>, std::less<>>;
Placement step_placement(const OptState& state, const Shapes& shapes, const Placement& placement);

// tx.init for parameters in the layout `placement`, with a state in the layout `wanted`.
OptState init_in(const Transformation& tx, const TensorMap& params, const Placement& placement,
                 const Placement& wanted);

// tx.apply, in any layout of the state, which it keeps. Gradients and parameters in another layout than the state's are
// sliced or moved to it, and the parameters moved back, one at a time. A leaf in another layout than that of the step
// is moved for the step.
void apply_in_own_layout(const Transformation& tx, TensorMap& params, TensorMap& gradients, OptState& state,
                         const Placement& placement);

}  // namespace easydel::optim
