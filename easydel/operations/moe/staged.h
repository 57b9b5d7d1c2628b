// Experts whose products are shared by all threads: unit after unit, in stages that overlap.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "easydel/operations/activation.h"
#include "easydel/operations/moe/units.h"

namespace easydel::operations {

// Letters as in moe_fused.cpp. On the CPU.
struct RoutedRows {
  const at::Tensor& x;       // [T, D]
  const at::Tensor& tokens;  // [R]: whose row it is
  const std::vector<Unit>& units;
  const Activation& act;
  at::Tensor w1, w2;  // [E, 2I, D], [E, D, I]
};

// By unit: gate and up [rows, 2I], and their results [rows, D].
struct ForwardRows {
  std::vector<at::Tensor> hidden, results;
};
ForwardRows run_forward(const RoutedRows& rows);

// d_factors [R] and the weights' gradients are written. Returns the gradients of the rows' x, by unit, or nothing.
std::vector<at::Tensor> run_backward(const RoutedRows& rows, const std::vector<at::Tensor>& hidden,
                                     const at::Tensor& d_y, const at::Tensor& factors, const at::Tensor& d_factors,
                                     WeightGradients& d_w, bool needs_x);

}  // namespace easydel::operations
