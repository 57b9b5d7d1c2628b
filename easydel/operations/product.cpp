#include "easydel/operations/product.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace easydel::operations {
namespace {

using at::Tensor;
using LinearPointwise = Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

constexpr int64_t kFewestRows = 64;

bool is_amd_with_avx512() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return false;
  char vendor[12];
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  return std::memcmp(vendor, "AuthenticAMD", sizeof vendor) == 0 && __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

const std::optional<c10::TypedOperatorHandle<LinearPointwise>>& onednn_linear() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<LinearPointwise>> {
    if (!is_amd_with_avx512() || !at::globalContext().userEnabledMkldnn()) return std::nullopt;
    const auto schema = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!schema || !schema->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
    return schema->typed<LinearPointwise>();
  }();
  return handle;
}

}  // namespace

bool prefers_onednn(const Tensor& rows) {
  return rows.scalar_type() == at::kFloat && rows.device().is_cpu() && rows.dim() >= 2 && rows.size(-1) > 0 &&
         rows.numel() >= kFewestRows * rows.size(-1) && onednn_linear();
}

Tensor product(const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  if (!prefers_onednn(rows) || weight.numel() == 0) return at::linear(rows, weight, bias);
  const Tensor flat = rows.reshape({-1, rows.size(-1)});
  std::vector<int64_t> shape = rows.sizes().vec();
  shape.back() = weight.size(0);
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  return onednn_linear()->call(flat, weight, given, "none", c10::List<std::optional<at::Scalar>>(), "").view(shape);
}

}  // namespace easydel::operations
