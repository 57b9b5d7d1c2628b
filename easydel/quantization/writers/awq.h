// Activation-aware scaling, AWQ: columns that see large inputs are made larger before they are rounded, and the layer
// before makes its outputs as much smaller, so that the model stays the same.
#pragma once

#include "easydel/quantization/writers/hessians.h"

namespace easydel::quantization {

// Changes the weights of a dense model; codes of uint4 in groups of this size are then closer in what they compute.
// NotSupportedError for a family other than llama, mistral, qwen2 and qwen3.
void scale_for_awq(BaseModule& model, const Hessians& hessians, int64_t group);

}  // namespace easydel::quantization
