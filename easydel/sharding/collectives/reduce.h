// Sums, maxima and minima over several buffers in host memory, in the order of the buffers.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

#include "easydel/sharding/collectives/group.h"

namespace easydel {

bool can_reduce(at::ScalarType dtype);

// Reduces elements [begin, end) of all `ins` into the same range of all `outs`, which may be `ins` too. 16- and 8-bit
// floats are summed in float32 and rounded once. NaNs propagate. NotSupportedError unless can_reduce.
void reduce(at::ScalarType dtype, ReduceOp op, std::span<const void* const> ins, std::span<void* const> outs,
            int64_t begin, int64_t end);

}  // namespace easydel
