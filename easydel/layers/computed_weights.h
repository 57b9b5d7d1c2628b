// Weights in files that are neither initialized randomly nor trained: they follow from a config.
#pragma once

#include <ATen/core/Tensor.h>

#include "easydel/layers/parameter.h"

namespace easydel {

class ComputedWeights {
 public:
  virtual ~ComputedWeights() = default;
  // Computes those that no file has given yet, in place of drawing them.
  virtual void fill(at::TensorOptions options) = 0;

 protected:
  // `whole`, or the part of it that this rank stores, where the parameter has no value.
  static void fill(Parameter& parameter, at::Tensor whole, at::TensorOptions options);
};

}  // namespace easydel
