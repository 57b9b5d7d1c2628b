// Shared by operations with a fused CPU kernel: when to use it, loops over rows, and the check for second derivatives.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/dispatch.h"

namespace easydel::operations::kernels {

inline bool applies(const at::Tensor& x) { return x.is_cpu() && has_kernels(x.scalar_type()); }

// f(begin, end) over rows that cost about `width` elements each.
template <class F>
void for_rows(int64_t rows, int64_t width, const F& f) {
  constexpr int64_t kElementsWorthAThread = 16384;
  at::parallel_for(0, rows, std::max<int64_t>(1, kElementsWorthAThread / std::max<int64_t>(1, width)), f);
}

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
