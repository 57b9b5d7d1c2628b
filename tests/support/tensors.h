// Comparing tensors, and gradients against differences.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace easydel {

struct Tolerance {
  double rtol = 1e-5;
  double atol = 1e-6;
};

// For EXPECT_TRUE. The message says where the largest difference is.
inline testing::AssertionResult is_close(const at::Tensor& actual, const at::Tensor& expected,
                                         Tolerance tolerance = {}) {
  if (!actual.defined() || !expected.defined()) {
    if (actual.defined() == expected.defined()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "one of the tensors is undefined";
  }
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure() << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  if (actual.numel() == 0) return testing::AssertionSuccess();
  const at::Tensor a = actual.detach().to(at::kCPU, at::kDouble), b = expected.detach().to(at::kCPU, at::kDouble);
  if (at::allclose(a, b, tolerance.rtol, tolerance.atol)) return testing::AssertionSuccess();
  const at::Tensor excess = ((a - b).abs() - tolerance.atol - tolerance.rtol * b.abs()).nan_to_num(1e300).flatten();
  const int64_t worst = excess.argmax().item<int64_t>();
  return testing::AssertionFailure() << "element " << worst << " of " << actual.sizes() << " is "
                                     << a.flatten()[worst].item<double>() << ", expected "
                                     << b.flatten()[worst].item<double>() << " (rtol " << tolerance.rtol << ", atol "
                                     << tolerance.atol << ")";
}

// For kernels that round differently.
inline testing::AssertionResult is_close_in_float32(const at::Tensor& a, const at::Tensor& b) {
  return is_close(a, b, {1e-4, 1e-5});
}

using Differentiable = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// The gradients of sum(f(inputs) * w), w fixed random weights of the output's shape.
inline std::vector<at::Tensor> gradients_of(const Differentiable& f, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  const at::Tensor out = f(leaves);
  const at::Tensor weights =
      at::sin(at::arange(out.numel(), at::TensorOptions().dtype(at::kDouble).device(out.device())) + 1)
          .view(out.sizes())
          .to(out.scalar_type());
  return torch::autograd::grad({out}, leaves, {weights}, std::nullopt, false, /*allow_unused=*/true);
}

// Checks f's gradients against central differences. Inputs are float64 and small.
inline testing::AssertionResult gradients_match_differences(const Differentiable& f,
                                                            const std::vector<at::Tensor>& inputs,
                                                            Tolerance tolerance = {1e-6, 1e-7}) {
  const auto analytic = gradients_of(f, inputs);
  const auto value = [&](const std::vector<at::Tensor>& at_inputs) {
    const at::Tensor out = f(at_inputs);
    return (out * at::sin(at::arange(out.numel(), at::kDouble) + 1).view(out.sizes())).sum().item<double>();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> moved;
    for (const at::Tensor& input : inputs) moved.push_back(input.detach().clone());
    at::Tensor numeric = at::zeros_like(inputs[i]);
    double* const x = moved[i].mutable_data_ptr<double>();
    constexpr double kStep = 1e-5;
    for (int64_t j = 0; j < numeric.numel(); ++j) {
      const double kept = x[j];
      x[j] = kept + kStep;
      const double up = value(moved);
      x[j] = kept - kStep;
      const double down = value(moved);
      x[j] = kept;
      numeric.mutable_data_ptr<double>()[j] = (up - down) / (2 * kStep);
    }
    const auto result = is_close(analytic[i].defined() ? analytic[i] : at::zeros_like(numeric), numeric, tolerance);
    if (!result) return testing::AssertionFailure() << "gradient of input " << i << ": " << result.message();
  }
  return testing::AssertionSuccess();
}

struct MemoryUse {
  int64_t peak = 0;  // peak bytes that torch allocated while f ran, beyond those before
  int64_t held = 0;  // bytes of that still allocated when f returned
};

// Counts the allocations of the calling thread.
inline MemoryUse memory_use(const std::function<void()>& f) {
  struct Meter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
      use.held += size;
      use.peak = std::max(use.peak, use.held);
    }
    bool memoryProfilingEnabled() const override { return true; }
    MemoryUse use;
  };
  auto meter = std::make_shared<Meter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
  f();
  return meter->use;
}

inline int64_t peak_bytes(const std::function<void()>& f) { return memory_use(f).peak; }
inline int64_t held_bytes(const std::function<void()>& f) { return memory_use(f).held; }

}  // namespace easydel
