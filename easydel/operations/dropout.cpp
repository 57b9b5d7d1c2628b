#include "easydel/operations/dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>

#include "easydel/operations/kernels/cpu/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Dropout : torch::autograd::Function<Dropout> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double p, RandomKey key, const Region* region) {
    ctx->saved_data["p"] = p;
    ctx->saved_data["key"] = std::bit_cast<int64_t>(key.bits());
    if (region) {
      ctx->saved_data["global_shape"] = region->global_shape;
      ctx->saved_data["offset"] = region->offset;
    }
    return x * dropout_factors(x, p, key, region);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("dropout");
    const RandomKey key(std::bit_cast<uint64_t>(ctx->saved_data["key"].toInt()));
    Region region;
    const bool has_region = ctx->saved_data.count("offset") != 0;
    if (has_region) region = {ctx->saved_data["global_shape"].toIntVector(), ctx->saved_data["offset"].toIntVector()};
    const Tensor factors =
        dropout_factors(grads[0], ctx->saved_data["p"].toDouble(), key, has_region ? &region : nullptr);
    return {grads[0] * factors, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor dropout_factors(const Tensor& x, double p, RandomKey key, const Region* region) {
  // Drawn in float32 for any type of x, so that every type drops the same elements.
  Tensor uniform = at::empty(x.sizes(), x.options().dtype(at::kFloat).requires_grad(false));
  Tensor inside = uniform;
  for (int64_t d = 0; region && d < x.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const int64_t left = std::max<int64_t>(0, region->global_shape[i] - region->offset[i]);
    if (left < x.size(d)) inside = inside.narrow(d, 0, left);
  }
  if (inside.numel() < uniform.numel()) uniform.fill_(1);
  if (inside.numel() > 0) fill_uniform(inside, key, 0.0, 1.0, region);
  return uniform.ge_(p).to(x.scalar_type()).mul_(1.0 / (1.0 - p));
}

Tensor dropout(const Tensor& x, double p, RandomKey key, const Region* region) {
  require<ConfigError>(p >= 0.0 && p < 1.0, "[dropout] p must be in [0, 1); got ", p, ".");
  return p == 0.0 ? x : Dropout::apply(x, p, key, region);
}

}  // namespace easydel::operations
