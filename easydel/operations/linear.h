// A linear map whose result a checkpoint policy can keep, and whose weight may be spread over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "easydel/operations/weight_access.h"

namespace easydel::operations {

// How a weight and a bias are stored and reached.
struct LinearStorage {
  bool transposed = false;  // the weight lies as [in, out]
  WeightAccessPtr weight = {}, bias = {};
};

// x [..., in], weight [out, in], bias [out] or undefined. weight and bias are cast to x's type. `name` is what
// name-based checkpoint policies know the result as: "attn_query", "mlp_gate", …
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  std::string_view name = {}, const LinearStorage& storage = {});

}  // namespace easydel::operations
