#include "easydel/trainers/run/gradients.h"

#include <ATen/ATen.h>

namespace easydel {

GraphState take_gradients(const GraphState& params) {
  GraphState tree;
  for (const auto& [path, tensor] : params) {
    if (!tensor.grad().defined()) continue;
    tree.set(path, tensor.grad());
    tensor.mutable_grad().reset();
  }
  return tree;
}

}  // namespace easydel
