// An optimizer state that lies on the mesh by rules of its own (ZeRO): the step is taken where the state lies, and the
// parameters are put together from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "easydel/optim/transformation.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::optim {

using ShardingPtr = std::shared_ptr<const WeightSharding>;  // null: whole on every rank

bool lie_alike(const ShardingPtr& a, const ShardingPtr& b);  // of one tensor
// One rank's part of a tensor in another layout: what was given, a view of it where the rank has it already, or new
// memory. All ranks call this together.
at::Tensor relayout(const at::Tensor& part, const ShardingPtr& from, const ShardingPtr& to);

// f(path, leaf) for every leaf.
void for_leaves(OptState& state, const std::function<void(const std::string& path, OptState::Leaf& leaf)>& f);
void for_leaves(const OptState& state,
                const std::function<void(const std::string& path, const OptState::Leaf& leaf)>& f);

// Where a step is taken: each parameter as the first leaf of its shape lies, or as it lies itself where it has none.
// Paths to whole shapes.
using Shapes = std::map<std::string, std::vector<int64_t>, std::less<>>;
Placement step_placement(const OptState& state, const Shapes& shapes, const Placement& placement);

// tx.init for parameters that lie as `placement` says, of a state for those that lie as `wanted` says.
OptState init_in(const Transformation& tx, const TensorMap& params, const Placement& placement,
                 const Placement& wanted);

// tx.apply, wherever the leaves of the state lie; they stay there. Gradients and parameters of another layout than the
// state's are cut or moved to it, and the parameters moved back, one at a time. A leaf whose layout is another than
// that of the step is moved for the step.
void apply_in_own_layout(const Transformation& tx, TensorMap& params, TensorMap& gradients, OptState& state,
                         const Placement& placement);

}  // namespace easydel::optim
