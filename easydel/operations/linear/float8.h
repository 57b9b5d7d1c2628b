// A linear map for training whose three products are computed in float8, as torchao's float8 training does: what goes
// into a product is rounded with scales of its own largest magnitudes, and the weight stays as it is stored.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "easydel/operations/linear/weight_access.h"

namespace easydel::operations {

// Rowwise: a scale, a power of two, for each row and column, e4m3 everywhere. Tensorwise: one scale for a matrix, and
// gradients in e5m2.
enum class Float8Scales { Rowwise, Tensorwise };
const std::vector<std::string_view>& float8_names();  // rowwise, tensorwise
Float8Scales parse_float8(std::string_view name);     // ConfigError

// Both sizes of a weight must be multiples of it.
inline constexpr int64_t kFloat8Multiple = 16;

// NotSupportedError on a GPU without such products.
void require_float8(at::Device device, Float8Scales scales);

// x [..., in], weight [out, in]. Without gradients it is operations::linear. The products of a GPU are torch's; the
// CPU's multiply the rounded numbers in float32.
at::Tensor float8_linear(const at::Tensor& x, const at::Tensor& weight, Float8Scales scales, std::string_view name = {},
                         const WeightAccessPtr& access = {});

}  // namespace easydel::operations
