// Normalization over the last dimension, computed in float32 or better.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::operations {

struct RmsNormOptions {
  double eps = 1e-6;
  double weight_offset = 0.0;         // the factor is offset + weight; 1 for gemma
  bool multiply_before_cast = false;  // gemma multiplies in float32; llama casts to the input's type, then multiplies
};

// x [..., D]; weight [D] of any float type, or undefined for none. The result has x's type.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options = {});

// weight and bias [D] of any float type, or undefined.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps = 1e-5);

}  // namespace easydel::operations
