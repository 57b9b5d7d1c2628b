// Gradient transformations, which turn gradients into updates, and their composition, as in optax.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/layers/tensor_map.h"
#include "easydel/optim/state.h"

namespace easydel {
class Parallel;
class WeightSharding;
}  // namespace easydel

namespace easydel::optim {

// The layout of the parameters on a mesh; by default one device.
struct Placement {
  std::shared_ptr<const Parallel> parallel = {};                                // null: one device
  std::map<std::string, std::shared_ptr<const WeightSharding>> shardings = {};  // by path; absent or null: replicated
};

// Immutable: everything that changes is in the state. Gradients and parameters are this rank's parts. A parameter
// without a gradient, or of an integer dtype, is skipped; a gradient without a parameter is a ConfigError, one of a
// different shape a ShapeError. On a mesh all ranks make the same calls together. Autograd records nothing here, and
// parameters may be leaves that require gradients.
class Transformation {
 public:
  virtual ~Transformation() = default;
  virtual OptState init(const TensorMap& params, const Placement& placement = {}) const = 0;
  // Gradients become updates, in place: in the tensors' memory or by other tensors in the map. The state advances.
  virtual void update(TensorMap& updates, OptState& state, const TensorMap& params,
                      const Placement& placement = {}) const = 0;
  // update, then params += updates. With a fused kernel both happen at once, without memory proportional to the model,
  // and the gradients may be left unchanged.
  virtual void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement = {}) const;
};
using GradientTransformation = std::shared_ptr<const Transformation>;

// params += updates, each in the parameter's dtype.
void apply_updates(TensorMap& params, const TensorMap& updates);

// Selects parameters by path and tensor.
using Mask = std::function<bool(std::string_view path, const at::Tensor& param)>;
// Selects paths that match the pattern. ConfigError when it is not a valid regular expression.
Mask matching(const std::string& pattern);
Mask not_matching(const std::string& pattern);

// In sequence; the last one applies the updates.
GradientTransformation chain(std::vector<GradientTransformation> transformations);
GradientTransformation identity();
GradientTransformation set_to_zero();
// Applies the inner one to the masked parameters. Others pass through unchanged: gradients stay gradients.
GradientTransformation masked(GradientTransformation inner, Mask mask);
GradientTransformation masked(GradientTransformation inner, const std::string& pattern);
// Each parameter to the first whose pattern matches its path. ConfigError names a parameter that none matches.
GradientTransformation multi_transform(std::vector<std::pair<std::string, GradientTransformation>> by_pattern);
// Each parameter to the transformation that its label names.
using Labels = std::function<std::string(std::string_view path, const at::Tensor& param)>;
GradientTransformation multi_transform(std::map<std::string, GradientTransformation> by_label, Labels labels);

}  // namespace easydel::optim
