// Dropout from a key: which elements fall is a function of (key, index), so recomputation and any mesh drop the same.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/core/random.h"

namespace easydel::operations {

// Zeroes each element with probability p and divides the others by 1 - p. Nothing is kept for backward but the key.
// ConfigError unless 0 <= p < 1. `region` is x's place in the whole tensor, where ranks hold parts of it; of
// what lies outside of the whole (a batch that was filled up) nothing is dropped.
at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, const Region* region = nullptr);

// What dropout multiplies by, 0 or 1 / (1 - p), in a tensor of x's shape, type and device.
at::Tensor dropout_factors(const at::Tensor& x, double p, RandomKey key, const Region* region = nullptr);

}  // namespace easydel::operations
