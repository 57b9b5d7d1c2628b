// The nearest (semi-)orthogonal matrix, by Newton-Schulz steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace easydel::optim {

struct NewtonSchulz {
  std::vector<std::array<double, 3>> coeffs;  // one for all steps, or one for each of at most `steps`
  int64_t steps = 5;
  std::string preconditioning = "frobenius";  // "spectral", "aol", "schatten"
  double eps = 1e-8;
};
void check_newton_schulz(const NewtonSchulz& options);  // ConfigError

// In float32 at least.
at::Tensor orthogonalize(const at::Tensor& matrix, const NewtonSchulz& options);

}  // namespace easydel::optim
