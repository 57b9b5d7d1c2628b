#include "easydel/layers/sinusoids.h"

#include <ATen/ATen.h>

#include <cmath>

namespace easydel {

at::Tensor sinusoids(int64_t positions, int64_t features, SlowestFrequency slowest) {
  const int64_t half = features / 2;
  const double step = std::log(10000.0) / static_cast<double>(slowest == SlowestFrequency::Last ? half - 1 : half);
  const at::Tensor rates = at::exp(at::arange(half, at::kFloat) * -step);
  const at::Tensor angles = at::arange(positions, at::kFloat).unsqueeze(1) * rates.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, 1);
}

SinusoidalPositions::SinusoidalPositions(int64_t positions, int64_t features, SlowestFrequency slowest)
    : Embedding(positions, features), slowest_(slowest) {
  weight()->trainable = false;
}

void SinusoidalPositions::fill(at::TensorOptions options) {
  ComputedWeights::fill(*weight(), sinusoids(count_dim().size, features_dim().size, slowest_), options);
}

}  // namespace easydel
