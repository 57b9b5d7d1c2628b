// The building blocks of optimizers. Names and defaults are optax's.
#pragma once

#include <optional>

#include "easydel/optim/schedules.h"
#include "easydel/optim/transformation.h"

namespace easydel::optim {

// sqrt of the sum of all squares, a float64 tensor [] on the tensors' device, the same on all ranks. On a mesh every
// element counts once, regardless of how many ranks store it; one number is reduced.
at::Tensor global_norm(const TensorMap& tree, const Placement& placement = {});

GradientTransformation clip(double max_delta);  // each element into [-max_delta, max_delta]
GradientTransformation clip_by_global_norm(double max_norm);
// The norm before clipping of clip_by_global_norm's last step: the leaf "global" of its tree "norm". The first one in
// the state, depth first; an undefined tensor when there is none. Reading its value synchronizes.
at::Tensor last_global_norm(const OptState& state);
// The same for a caller who has the norm of all these trees already: nothing is touched when it is within the bound.
void clip_to_norm(const std::vector<const TensorMap*>& trees, double norm, double max_norm);
GradientTransformation clip_by_block_rms(double threshold);  // the root mean square of each parameter's update

GradientTransformation scale(double step_size);
GradientTransformation scale_by_schedule(Schedule step_size);
GradientTransformation scale_by_learning_rate(Schedule learning_rate, bool flip_sign = true);
GradientTransformation scale_by_param_block_rms(double min_scale = 1e-3);
// updates += weight_decay * params, for the parameters in the mask.
GradientTransformation add_decayed_weights(Schedule weight_decay = 0.0, Mask mask = {});

struct TraceOptions {
  double decay = 0.9;
  bool nesterov = false;
  std::optional<at::ScalarType> accumulator_dtype = {};  // the parameter's
};
GradientTransformation trace(const TraceOptions& options);

struct EmaOptions {
  double decay = 0.9;
  bool debias = true;
  std::optional<at::ScalarType> accumulator_dtype = {};
};
GradientTransformation ema(const EmaOptions& options);

}  // namespace easydel::optim
