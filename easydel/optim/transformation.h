// What turns gradients into updates, and how transformations are put together, as in optax.
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

// Where the parameters lie on a mesh; by default on one device.
struct Placement {
  std::shared_ptr<const Parallel> parallel = {};                                // null: one device
  std::map<std::string, std::shared_ptr<const WeightSharding>> shardings = {};  // by path; absent or null: whole
};

// Immutable: all that changes is in the state. Gradients and parameters are those that this rank stores. A parameter
// without a gradient, or of an integer dtype, is left alone; a gradient without a parameter is a ConfigError, one of
// another shape a ShapeError. On a mesh all ranks call the same things together. Nothing here is recorded by autograd,
// and parameters may be leaves that require gradients.
class Transformation {
 public:
  virtual ~Transformation() = default;
  virtual OptState init(const TensorMap& params, const Placement& placement = {}) const = 0;
  // Gradients become updates, in place: in the tensors' memory or by other tensors in the map. The state advances.
  virtual void update(TensorMap& updates, OptState& state, const TensorMap& params,
                      const Placement& placement = {}) const = 0;
  // update, then params += updates. One with a fused kernel does both at once, without memory that grows with the
  // model, and then the gradients may be left as they were.
  virtual void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement = {}) const;
};
using GradientTransformation = std::shared_ptr<const Transformation>;

// params += updates, each in the parameter's dtype.
void apply_updates(TensorMap& params, const TensorMap& updates);

// Which parameters something is meant for, by path and tensor.
using Mask = std::function<bool(std::string_view path, const at::Tensor& param)>;
// Paths in which the pattern is found. ConfigError when it is not a valid regular expression.
Mask matching(const std::string& pattern);
Mask not_matching(const std::string& pattern);

// One after the other; the last one applies.
GradientTransformation chain(std::vector<GradientTransformation> transformations);
GradientTransformation identity();
GradientTransformation set_to_zero();
// The inner one sees what the mask takes. What it does not take passes through as it is: gradients stay gradients.
GradientTransformation masked(GradientTransformation inner, Mask mask);
GradientTransformation masked(GradientTransformation inner, const std::string& pattern);
// Each parameter to the first whose pattern is found in its path. ConfigError names a parameter that none is for.
GradientTransformation multi_transform(std::vector<std::pair<std::string, GradientTransformation>> by_pattern);
// Each parameter to the transformation that its label names.
using Labels = std::function<std::string(std::string_view path, const at::Tensor& param)>;
GradientTransformation multi_transform(std::map<std::string, GradientTransformation> by_label, Labels labels);

}  // namespace easydel::optim
