#include "easydel/layers/computed_weights.h"

#include <ATen/ATen.h>

namespace easydel {

void ComputedWeights::fill(Parameter& parameter, at::Tensor whole, at::TensorOptions options) {
  if (!parameter.is_lazy()) return;
  if (parameter.sharding()) whole = take(whole, parameter.sharding()->stored()).contiguous();
  parameter.bind(whole.to(options));
}

}  // namespace easydel
