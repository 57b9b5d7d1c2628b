// Gradients as backward leaves them, taken as a tree.
#pragma once

#include "easydel/infra/state/graph.h"

namespace easydel {

// Takes the accumulated gradients of these parameters, by path. Parameters without a gradient
// are left out.
GraphState take_gradients(const GraphState& params);

}  // namespace easydel
