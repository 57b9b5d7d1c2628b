// Float8 training by its formulas: what goes into a product is rounded along the dimension that is summed.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/operations/linear/float8.h"

namespace easydel {

// x as float8 has it, in float32: with a scale for each line along `dim`, or for all.
inline at::Tensor rounded_to_float8(const at::Tensor& x_in, operations::Float8Scales scales, int64_t dim,
                                    bool is_gradient = false) {
  const bool rowwise = scales == operations::Float8Scales::Rowwise;
  const auto type = !rowwise && is_gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  const double largest = !rowwise && is_gradient ? 57344 : 448;
  const at::Tensor x = x_in.detach().to(at::kCPU, at::kFloat);
  const at::Tensor magnitudes = (rowwise ? x.abs().amax(dim, true) : x.abs().max()).to(at::kDouble).clamp_min(1e-12);
  at::Tensor scale = (largest / magnitudes).to(at::kFloat);
  if (rowwise) scale = at::exp2(at::floor(at::log2(scale.to(at::kDouble)))).to(at::kFloat);
  return (x * scale).clamp(-largest, largest).to(type).to(at::kFloat) / scale;
}

struct Float8Expected {
  at::Tensor y, d_x, d_weight;
};

// x [R, in], weight [out, in], d_y [R, out].
inline Float8Expected float8_expected(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& d_y,
                                      operations::Float8Scales s) {
  const auto rounded = [&](const at::Tensor& t, int64_t dim) { return rounded_to_float8(t, s, dim); };
  const auto gradient = [&](int64_t dim) { return rounded_to_float8(d_y, s, dim, /*is_gradient=*/true); };
  return {at::mm(rounded(x, 1), rounded(weight, 1).t()), at::mm(gradient(1), rounded(weight, 0)),
          at::mm(gradient(0).t(), rounded(x, 0))};
}

}  // namespace easydel
