// Gradients as backward leaves them, taken as a tree.
#pragma once

#include "easydel/infra/state/graph.h"

namespace easydel {

// What backward has added up beside these parameters, by path; it is theirs no more. Parameters that nothing reached
// are left out.
GraphState take_gradients(const GraphState& params);

}  // namespace easydel
