// Around an optimizer: several gradients for one step, hyperparameters that can be set, steps that are left out.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "easydel/optim/schedules.h"
#include "easydel/optim/transformation.h"

namespace easydel::optim {

struct MultiStepsOptions {
  int64_t every_k = 1;
  bool use_grad_mean = true;                             // otherwise the sum
  std::optional<at::ScalarType> accumulator_dtype = {};  // float32, and float64 for float64 parameters
};
// Gathers every_k gradients, then gives their mean to the inner one; until then updates are zero and parameters stay.
GradientTransformation MultiSteps(GradientTransformation inner, const MultiStepsOptions& options);
GradientTransformation MultiSteps(GradientTransformation inner, int64_t every_k);
bool has_updated(const OptState& state);  // of MultiSteps: whether the last call was a step

using Hyperparams = std::map<std::string, double>;
// Keeps the hyperparameters in state.scalars, from which each step makes the inner one anew. Numbers stay as they are
// set there; what a schedule gives is written in each step. The inner states must not depend on the values.
GradientTransformation inject_hyperparams(std::function<GradientTransformation(const Hyperparams&)> make,
                                          std::map<std::string, Schedule> hyperparams);

// Leaves out steps with a gradient that is infinite or no number, on all ranks if on one; but not more than this many
// one after the other. Waits for the device once in each step. counts: notfinite_count, total_notfinite, last_finite.
GradientTransformation apply_if_finite(GradientTransformation inner, int64_t max_consecutive_errors);

}  // namespace easydel::optim
