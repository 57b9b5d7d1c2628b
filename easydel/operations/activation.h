// Activation functions by the names of `hidden_act` in Hugging Face's configs.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace easydel::operations {

enum class GatedKernel { None, Silu, GeluTanh };  // which fused kernel computes act(gate) * up

struct Activation {
  std::string_view name;
  at::Tensor (*function)(const at::Tensor&);
  GatedKernel gated = GatedKernel::None;

  at::Tensor operator()(const at::Tensor& x) const { return function(x); }
};

// The result lives as long as the program. ConfigError lists the known names.
const Activation& find_activation(const std::string& name);
std::vector<std::string> activation_names();

// act(gate) * up. Only the inputs are kept for backward, whatever the activation.
at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, const Activation& act);
// The same on the halves of the last dimension: gate first, then up.
at::Tensor gated_activation(const at::Tensor& gate_up, const Activation& act);

}  // namespace easydel::operations
