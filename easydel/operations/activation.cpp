#include "easydel/operations/activation.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <numbers>

#include "easydel/core/error.h"

namespace easydel::operations {
namespace {

using at::Tensor;

const double kRootTwoOverPi = std::sqrt(2.0 / std::numbers::pi);

Tensor gelu(const Tensor& x) { return at::gelu(x); }
Tensor gelu_tanh(const Tensor& x) { return at::gelu(x, "tanh"); }
Tensor gelu_python(const Tensor& x) { return x * 0.5 * (1.0 + at::erf(x / std::numbers::sqrt2)); }
Tensor gelu_new(const Tensor& x) {
  return 0.5 * x * (1.0 + at::tanh(kRootTwoOverPi * (x + 0.044715 * at::pow(x, 3.0))));
}
Tensor gelu_fast(const Tensor& x) { return 0.5 * x * (1.0 + at::tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))); }
Tensor gelu_10(const Tensor& x) { return at::clip(at::gelu(x), -10, 10); }
Tensor quick_gelu(const Tensor& x) {
  if (at::GradMode::is_enabled() && x.requires_grad()) return x * at::sigmoid(1.702 * x);
  return (1.702 * x).sigmoid_().mul_(x);
}
Tensor silu(const Tensor& x) { return at::silu(x); }
Tensor relu(const Tensor& x) { return at::relu(x); }
Tensor relu2(const Tensor& x) { return at::square(at::relu(x)); }
Tensor relu6(const Tensor& x) { return at::hardtanh(x, 0, 6); }
Tensor leaky_relu(const Tensor& x) { return at::leaky_relu(x); }
Tensor tanh(const Tensor& x) { return at::tanh(x); }
Tensor sigmoid(const Tensor& x) { return at::sigmoid(x); }
Tensor hardswish(const Tensor& x) { return at::hardswish(x); }
Tensor mish(const Tensor& x) { return at::mish(x); }
Tensor linear(const Tensor& x) { return x; }
Tensor laplace(const Tensor& x) { return 0.5 * (1.0 + at::erf((x - 0.707107) / (0.282095 * std::numbers::sqrt2))); }
Tensor sqrt_softplus(const Tensor& x) { return at::softplus(x).sqrt(); }

// gelu_new, gelu_fast, gelu_accurate and gelu_python_tanh are the same function written differently; gated they share
// its kernel.
constexpr std::array kActivations = {
    Activation{"gelu", gelu},
    Activation{"gelu_10", gelu_10},
    Activation{"gelu_accurate", gelu_new, GatedKernel::GeluTanh},
    Activation{"gelu_fast", gelu_fast, GatedKernel::GeluTanh},
    Activation{"gelu_new", gelu_new, GatedKernel::GeluTanh},
    Activation{"gelu_python", gelu_python},
    Activation{"gelu_python_tanh", gelu_new, GatedKernel::GeluTanh},
    Activation{"gelu_pytorch_tanh", gelu_tanh, GatedKernel::GeluTanh},
    Activation{"hardswish", hardswish},
    Activation{"laplace", laplace},
    Activation{"leaky_relu", leaky_relu},
    Activation{"linear", linear},
    Activation{"mish", mish},
    Activation{"quick_gelu", quick_gelu},
    Activation{"relu", relu},
    Activation{"relu2", relu2},
    Activation{"relu6", relu6},
    Activation{"sigmoid", sigmoid},
    Activation{"silu", silu, GatedKernel::Silu},
    Activation{"sqrtsoftplus", sqrt_softplus},
    Activation{"swish", silu, GatedKernel::Silu},
    Activation{"tanh", tanh},
};

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const Activation& activation : kActivations) names.emplace_back(activation.name);
  return names;
}

const Activation& find_activation(const std::string& name) {
  for (const Activation& activation : kActivations) {
    if (activation.name == name) return activation;
  }
  std::string known;
  for (const Activation& activation : kActivations) known += concat(known.empty() ? "" : ", ", activation.name);
  const std::string nearest = nearest_name(name, activation_names());
  fail<ConfigError>("[activation] unknown activation \"", name, "\"; known: ", known, ".",
                    nearest.empty() ? "" : " Did you mean \"" + nearest + "\"?");
}

}  // namespace easydel::operations
