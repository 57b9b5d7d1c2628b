// How far kernels of half precision may be from float64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace easydel::operations {

// ||got - want|| / ||want||, in float64.
inline double error_of(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor wide = got.cpu().to(at::kDouble);
  EXPECT_EQ(wide.sizes(), want.sizes());
  return ((wide - want).norm() / want.norm()).item<double>();
}

inline double tolerance_of(at::ScalarType type) { return type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-3 : 5e-3; }

}  // namespace easydel::operations
