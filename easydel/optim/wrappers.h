// Wrappers of optimizers: gradient accumulation, settable hyperparameters, skipped steps.
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
// Accumulates every_k gradients, then passes their mean to the inner one; until then updates are zero. The trainer's
// gradient_accumulation_steps needs no such copy: backward adds each minibatch's gradients to the parameters'.
GradientTransformation MultiSteps(GradientTransformation inner, const MultiStepsOptions& options);
GradientTransformation MultiSteps(GradientTransformation inner, int64_t every_k);
bool has_updated(const OptState& state);  // of MultiSteps: whether the last call was a step

using Hyperparams = std::map<std::string, double>;
// Keeps the hyperparameters in state.scalars, from which each step rebuilds the inner one. Numbers keep the value set
// there; schedules are written in each step. The inner states must not depend on the values.
GradientTransformation inject_hyperparams(std::function<GradientTransformation(const Hyperparams&)> make,
                                          std::map<std::string, Schedule> hyperparams);

// Skips steps with an infinite or NaN gradient, on all ranks if on one; but at most this many in a row. Synchronizes
// once per step. counts: notfinite_count, total_notfinite, last_finite.
GradientTransformation apply_if_finite(GradientTransformation inner, int64_t max_consecutive_errors);

}  // namespace easydel::optim
