#include "easydel/operations/activation.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "tests/support/python.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor numbers(const Json& json) {
  std::vector<double> values;
  for (const Json& each : json.as_array()) values.push_back(each.as_double());
  return at::tensor(values, at::kDouble);
}

TEST(Activation, HasEveryNameOfTheReferenceWithItsValues) {
  const Json reference = Json::parse(run_python("operations_peer.py", {"activations"}));
  const Tensor x = numbers(reference.at("x"));
  for (const auto& [name, values] : reference.at("y").as_object()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(is_close(find_activation(name)(x), numbers(values), {1e-12, 1e-12}));
  }
  EXPECT_EQ(activation_names().size(), reference.at("y").size());
}

TEST(Activation, ListsTheKnownNamesAndTheNearest) {
  EXPECT_THAT(
      [] { find_activation("gelu_pytorch_than"); },
      ThrowsMessage<ConfigError>(
          "[activation] unknown activation \"gelu_pytorch_than\"; known: gelu, gelu_10, gelu_accurate, gelu_fast, "
          "gelu_new, gelu_python, gelu_python_tanh, gelu_pytorch_tanh, hardswish, laplace, leaky_relu, linear, mish, "
          "quick_gelu, relu, relu2, relu6, sigmoid, silu, sqrtsoftplus, swish, tanh. Did you mean "
          "\"gelu_pytorch_tanh\"?"));
}

TEST(GatedActivation, IsTheActivationTimesUp) {
  at::manual_seed(0);
  for (const std::string& name : activation_names()) {
    SCOPED_TRACE(name);
    const Activation& act = find_activation(name);
    for (const int64_t width : {1, 6, 530}) {
      const Tensor gate_up = at::randn({2, 3, 2 * width}, at::kDouble) * 3;
      const Tensor gate = gate_up.narrow(-1, 0, width), up = gate_up.narrow(-1, width, width);
      // The kernel's constant and that of gelu_fast differ after ten digits.
      const Tolerance tolerance{1e-8, 1e-8};
      EXPECT_TRUE(is_close(gated_activation(gate, up, act), act(gate) * up, tolerance));
      EXPECT_TRUE(is_close(gated_activation(gate_up, act), act(gate) * up, tolerance));
      // torch's own gelu is only this close to the truth in float32; the fused kernels are closer.
      const Tensor in_float = gated_activation(gate.to(at::kFloat), up.to(at::kFloat), act);
      const double error = act.gated == GatedKernel::None ? 3e-5 : 2e-6;
      EXPECT_TRUE(is_close(in_float, act(gate) * up, {error, error}));
    }
  }
}

TEST(GatedActivation, IsAccurateAtLargeInputs) {
  for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
    const Activation& act = find_activation(name);
    const Tensor gate = at::tensor({-1e4f, -100.f, -88.f, -20.f, 0.f, 20.f, 88.f, 100.f, 1e4f});
    EXPECT_TRUE(is_close(gated_activation(gate, at::ones_like(gate), act), act(gate.to(at::kDouble)), {1e-6, 1e-6}))
        << name;
    const auto grads = gradients_of([&](const std::vector<Tensor>& x) { return gated_activation(x[0], x[1], act); },
                                    {gate, at::ones_like(gate)});
    EXPECT_TRUE(at::isfinite(grads[0]).all().item<bool>()) << name;
  }
}

TEST(GatedActivation, GradientsMatchDifferences) {
  at::manual_seed(0);
  const Tensor gate = at::randn({2, 5}, at::kDouble), up = at::randn({2, 5}, at::kDouble);
  for (const char* name : {"silu", "gelu_pytorch_tanh", "gelu", "relu2", "quick_gelu"}) {
    SCOPED_TRACE(name);
    const Activation& act = find_activation(name);
    EXPECT_TRUE(gradients_match_differences(
        [&](const std::vector<Tensor>& x) { return gated_activation(x[0], x[1], act); }, {gate, up}));
    EXPECT_TRUE(gradients_match_differences([&](const std::vector<Tensor>& x) { return gated_activation(x[0], act); },
                                            {at::cat({gate, up}, -1)}));
  }
}

TEST(GatedActivation, RoundsOnceInHalfPrecision) {
  at::manual_seed(0);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
      const Activation& act = find_activation(name);
      const auto f = [&](const std::vector<Tensor>& x) { return gated_activation(x[0], act); };
      const Tensor x = at::randn({30, 200}).to(type), wide = x.to(at::kDouble);
      const double rtol = type == at::kHalf ? 6e-4 : 4e-3;
      EXPECT_TRUE(is_close(f({x}), f({wide}), {rtol, 1e-6}));
      EXPECT_TRUE(is_close(gradients_of(f, {x})[0], gradients_of(f, {wide})[0], {4 * rtol, 4e-3}));
    }
  }
}

TEST(GatedActivation, KeepsOnlyItsInputs) {
  const Tensor gate_up = at::randn({64, 2048}).requires_grad_();
  for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
    Tensor out;
    const int64_t peak = peak_bytes([&] { out = gated_activation(gate_up, find_activation(name)); });
    EXPECT_LT(peak, out.numel() * 4 + 1024) << name;
  }
}

TEST(GatedActivation, AcceptsAnyStrides) {
  const Activation& act = find_activation("silu");
  const Tensor gate = at::randn({4, 6}).t(), up = at::randn({6, 8}).slice(1, 0, 8, 2);
  EXPECT_TRUE(at::equal(gated_activation(gate, up, act), gated_activation(gate.contiguous(), up.contiguous(), act)));
  const Tensor batch = at::randn({3, 4, 10}).narrow(1, 1, 2).narrow(2, 2, 6);
  EXPECT_TRUE(
      at::equal(gated_activation(batch, batch, act), gated_activation(batch.contiguous(), batch.contiguous(), act)));
}

TEST(GatedActivation, RejectsMismatchedHalves) {
  const Activation& act = find_activation("silu");
  EXPECT_THAT(
      [&] { gated_activation(at::zeros({2, 3}), at::zeros({2, 4}), act); },
      ThrowsMessage<ShapeError>(
          "[gated_activation] gate and up must have the same shape and dtype; got [2, 3] Float and [2, 4] Float."));
  EXPECT_THAT([&] { gated_activation(at::zeros({2, 3}), act); },
              ThrowsMessage<ShapeError>(
                  "[gated_activation] the last dimension must contain gate and up, of equal size; got [2, 3]."));
}

}  // namespace
}  // namespace easydel::operations
