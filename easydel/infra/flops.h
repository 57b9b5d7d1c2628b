// Floating point operations of a model's forward. A multiplication and an addition are two.
#pragma once

#include <cstdint>

namespace easydel {

class BaseModule;

// For one token of a sequence of that length, on average.
double flops_per_token(const BaseModule& model, int64_t sequence_length);

}  // namespace easydel
