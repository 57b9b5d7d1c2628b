// A linear map whose result a checkpoint policy can keep, and whose weight may be sharded.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "easydel/operations/linear/weight_access.h"

namespace easydel::operations {

struct AroundProducts;  // around_products.h

// How a weight and a bias are stored and reached.
struct LinearStorage {
  bool transposed = false;  // the weight is stored as [in, out]
  WeightAccessPtr weight = {}, bias = {};
};

// x [..., in], weight [out, in], bias [out] or undefined. weight and bias are cast to x's type. `name` identifies the
// result for name-based checkpoint policies: "attn_query", "mlp_gate", …
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  std::string_view name = {}, const LinearStorage& storage = {});

// Several linear maps of one x, as one loop over all their rows if x is only a few vectors; else one by one.
struct LinearMap {
  at::Tensor weight, bias;
  std::string_view name = {};
  LinearStorage storage = {};
};
std::vector<at::Tensor> linears(const at::Tensor& x, const std::vector<LinearMap>& maps);

// The same with what surrounds them, in one launch; nullopt where there is no kernel for that, or a gradient is needed.
std::optional<std::vector<at::Tensor>> linears_around(const at::Tensor& x, const std::vector<LinearMap>& maps,
                                                      const AroundProducts& around);

}  // namespace easydel::operations
