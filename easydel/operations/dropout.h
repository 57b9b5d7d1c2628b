// Dropout with a key: the dropped elements are a function of (key, index), the same in recomputation and on any mesh.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/core/random.h"

namespace easydel::operations {

// Zeroes each element with probability p and divides the others by 1 - p. Only the key is kept for backward.
// ConfigError unless 0 <= p < 1. `region` is x's position in the full tensor, if ranks have parts of it; elements
// outside the full tensor (of a padded batch) are not dropped.
at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, const Region* region = nullptr);

// The factors of dropout, 0 or 1 / (1 - p), in a tensor of x's shape, type and device.
at::Tensor dropout_factors(const at::Tensor& x, double p, RandomKey key, const Region* region = nullptr);

}  // namespace easydel::operations
