// Routing tokens to experts on the CPU, without gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "easydel/operations/moe/moe.h"

namespace easydel::operations::cpu_experts {

// As operations::route, without groups and with a scale that is not 0, for logits of float32 or float64, and what the
// logits get of the weights' gradient.
bool can_route(const at::Tensor& logits);
Routing route(const at::Tensor& logits, const RouterOptions& options);
at::Tensor route_backward(const at::Tensor& logits, const Routing& routing, const at::Tensor& d_weights,
                          const RouterOptions& options);

// ShapeError for an expert outside [0, num_experts).
Dispatch sort_by_expert(const at::Tensor& experts, int64_t num_experts);

}  // namespace easydel::operations::cpu_experts
