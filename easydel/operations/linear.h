// A linear map whose result a checkpoint policy can keep.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace easydel::operations {

// x [..., in], weight [out, in], bias [out] or undefined. weight and bias are cast to x's type. `name` is what
// name-based checkpoint policies know the result as: "attn_query", "mlp_gate", …
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                  std::string_view name = {});

}  // namespace easydel::operations
