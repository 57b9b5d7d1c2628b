#include "easydel/layers/attention/relative_bias.h"

#include <ATen/ATen.h>

#include <cmath>

namespace easydel {

at::Tensor relative_buckets(int64_t queries, int64_t keys, int64_t past, const RelativeBiasSpec& spec,
                            at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const at::Tensor ahead =
      at::arange(keys, options).unsqueeze(0) - at::arange(past, past + queries, options).unsqueeze(1);
  int64_t buckets = spec.buckets;
  at::Tensor first = at::zeros_like(ahead), distance;
  if (spec.bidirectional) {
    buckets /= 2;
    first = ahead.gt(0).to(at::kLong) * buckets;
    distance = ahead.abs();
  } else {
    distance = ahead.clamp_max(0).neg();
  }
  // Small distances have a bucket each; larger ones share buckets that grow with the logarithm. In float32, since the
  // rounding decides at the borders.
  const int64_t exact = buckets / 2;
  const double scale = std::log(static_cast<double>(spec.max_distance) / static_cast<double>(exact));
  const at::Tensor far = (exact + (at::log(distance.to(at::kFloat) / exact) / scale * (buckets - exact)).to(at::kLong))
                             .clamp_max(buckets - 1);
  return first + at::where(distance.lt(exact), distance, far);
}

}  // namespace easydel
