// Rounding matrices to float8 on a GPU, if built with nvcc.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace easydel::operations::cuda_fused {

struct Float8Rounding {
  at::ScalarType dtype;  // Float8_e4m3fn or Float8_e5m2
  bool power_of_two;     // scales are rounded down to one
};

// Whether there are kernels for the rows x [R, W] and for their columns.
bool can_cast_float8(const at::Tensor& x);

// Each row with a scale of its own: [R, W], and 1 / scale [R, 1]. The largest magnitudes of the columns [W], where
// `columns` is given, come from the same pass.
std::pair<at::Tensor, at::Tensor> float8_rows(const at::Tensor& x, Float8Rounding rounding, at::Tensor* columns);
// The largest magnitude of all elements, [1].
at::Tensor float8_largest(const at::Tensor& x);
// With one scale for all: [R, W], and 1 / scale, a scalar.
std::pair<at::Tensor, at::Tensor> float8_cast(const at::Tensor& x, const at::Tensor& largest, Float8Rounding rounding);
// Columns as rows of `padded` elements, zeros behind R of them: [W, padded], and 1 / scale, [W, 1] where `largest` is
// [W], else a scalar.
std::pair<at::Tensor, at::Tensor> float8_columns(const at::Tensor& x, const at::Tensor& largest,
                                                 Float8Rounding rounding, int64_t padded);

}  // namespace easydel::operations::cuda_fused
