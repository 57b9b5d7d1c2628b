#include "easydel/layers/sinusoids.h"

#include <ATen/ATen.h>

#include <cmath>

namespace easydel {

at::Tensor sinusoids(int64_t positions, int64_t features) {
  const int64_t half = features / 2;
  const double step = std::log(10000.0) / static_cast<double>(half - 1);
  const at::Tensor rates = at::exp(at::arange(half, at::kFloat) * -step);
  const at::Tensor angles = at::arange(positions, at::kFloat).unsqueeze(1) * rates.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, 1);
}

SinusoidalPositions::SinusoidalPositions(int64_t positions, int64_t features) : Embedding(positions, features) {
  weight()->trainable = false;
}

void SinusoidalPositions::fill(at::TensorOptions options) {
  if (!weight()->is_lazy()) return;
  at::Tensor table = sinusoids(count_dim().size, features_dim().size);
  if (weight()->sharding()) table = take(table, weight()->sharding()->stored()).contiguous();
  weight()->bind(table.to(options));
}

}  // namespace easydel
