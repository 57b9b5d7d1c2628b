// The form of an optimizer state, and the way from one layout on a mesh to another.
#pragma once

#include <vector>

#include "easydel/infra/graph.h"
#include "easydel/optim/state.h"
#include "easydel/optim/transformation.h"

namespace easydel {

// Deals an optimizer state as the transformation would for parameters that lie so. Without a transformation a leaf of
// a parameter's shape lies as that parameter does, and any other is whole everywhere. All ranks call this together.
void lay_out(optim::OptState& state, const optim::GradientTransformation& tx,
             const std::vector<ParameterInfo>& parameters, const optim::Placement& placement);

// The parameters that train: without those that a transform of the model has frozen, for which no optimizer keeps
// anything.
std::vector<ParameterInfo> trained_parameters(const GraphDef& graphdef);
GraphState trained_params(const GraphDef& graphdef, const GraphState& params);

// What the transformation would make, without memory.
optim::OptState planned_state(const optim::Transformation& tx, const std::vector<ParameterInfo>& parameters,
                              const optim::Placement& placement);

}  // namespace easydel
