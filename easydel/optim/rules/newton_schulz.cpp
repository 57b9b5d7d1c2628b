#include "easydel/optim/rules/newton_schulz.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/optim/tree.h"

namespace easydel::optim {
namespace {

// c0 X + (c1 A + c2 A A) X with A = X X^T.
at::Tensor step(const at::Tensor& x, const at::Tensor& a, const std::array<double, 3>& c) {
  const at::Tensor b = at::addmm(a, a, a, /*beta=*/c[1], /*alpha=*/c[2]);
  return at::addmm(x, b, x, /*beta=*/c[0], /*alpha=*/1);
}

constexpr double kMinNorm = 1e-8;

}  // namespace

void check_newton_schulz(const NewtonSchulz& o) {
  const auto coeffs = static_cast<int64_t>(o.coeffs.size());
  require<ConfigError>(o.steps >= 1 && o.steps <= 100, "[muon] ns_steps must be in [1, 100]; got ", o.steps, ".");
  require<ConfigError>(coeffs >= 1 && coeffs <= o.steps,
                       "[muon] ns_coeffs must have one triple, or at most one for each of the ", o.steps,
                       " steps; got ", coeffs, ".");
  const auto& p = o.preconditioning;
  require<ConfigError>(p == "frobenius" || p == "spectral" || p == "aol" || p == "schatten",
                       "[muon] unknown preconditioning \"", p, "\"; known: aol, frobenius, schatten, spectral.");
}

at::Tensor orthogonalize(const at::Tensor& matrix, const NewtonSchulz& o) {
  if (matrix.numel() == 0) return matrix.clone();
  const bool transposed = matrix.size(0) > matrix.size(1);
  at::Tensor x = widen({transposed ? matrix.t() : matrix})[0];
  if (o.preconditioning == "frobenius") x = x / (at::linalg_vector_norm(x) + o.eps);
  if (o.preconditioning == "spectral") x = x / (at::linalg_matrix_norm(x, 2) + o.eps);
  const std::size_t steps = o.coeffs.size() == 1 ? static_cast<std::size_t>(o.steps) : o.coeffs.size();
  for (std::size_t i = 0; i < steps; ++i) {
    at::Tensor a = x.mm(x.t());
    if (i == 0 && o.preconditioning == "aol") {
      const at::Tensor s = a.abs().sum(-1).clamp_min(kMinNorm).rsqrt().unsqueeze(-1);
      x = x * s;
      a = a * s * s.t();
    }
    if (i == 0 && o.preconditioning == "schatten") {
      const at::Tensor s = at::linalg_vector_norm(a).clamp_min(kMinNorm).rsqrt();
      x = x * s;
      a = a * s.square();
    }
    x = step(x, a, o.coeffs[o.coeffs.size() == 1 ? 0 : i]);
  }
  return transposed ? x.t() : x;
}

}  // namespace easydel::optim
