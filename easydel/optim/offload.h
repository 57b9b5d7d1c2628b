// Optimizer states in the memory of the host.
#pragma once

#include "easydel/optim/transformation.h"

namespace easydel::optim {

// What a part of the parameters has of states on their device at once.
inline constexpr int64_t kOffloadPart = int64_t{256} << 20;

// The same numbers as `inner`, which treats each parameter by itself. States are pinned on the host. A step brings them
// to the parameters' device part by part: while one is computed, the next comes and the one before goes back, on
// streams of their own. Tensors of a state may be read whenever no step is running. NotSupportedError for a
// transformation that is made of several.
GradientTransformation offloaded(GradientTransformation inner, int64_t part_bytes = kOffloadPart);

}  // namespace easydel::optim
