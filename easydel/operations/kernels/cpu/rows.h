// What operations with a fused CPU form share: when to use it, how many rows there are, and one derivative only.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/dispatch.h"

namespace easydel::operations::kernels {

inline bool applies(const at::Tensor& x) { return x.is_cpu() && has_kernels(x.scalar_type()); }

inline int64_t row_count(const at::Tensor& x) { return x.size(-1) ? x.numel() / x.size(-1) : 0; }

// torch's autograd functions take a tensor that may be undefined as an optional.
inline std::optional<at::Tensor> as_optional(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
}

// Fused backward passes are not differentiable themselves; without this a second derivative would be silently wrong.
inline void require_first_derivative(const char* operation) {
  require<NotSupportedError>(!at::GradMode::is_enabled(), "[", operation,
                             "] does not support second derivatives. Call backward without create_graph.");
}

}  // namespace easydel::operations::kernels
