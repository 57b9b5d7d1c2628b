// The nearest matrix with orthogonal rows or columns, by Newton-Schulz steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace easydel::optim {

struct NewtonSchulz {
  std::vector<std::array<double, 3>> coeffs;  // one for all steps, or at most as many as there are steps: one for each
  int64_t steps = 5;
  std::string preconditioning = "frobenius";  // "spectral", "aol", "schatten"
  double eps = 1e-8;
};
void check_newton_schulz(const NewtonSchulz& options);  // ConfigError

// In float32 at least.
at::Tensor orthogonalize(const at::Tensor& matrix, const NewtonSchulz& options);

}  // namespace easydel::optim
