// Optimizers: transformations from gradients to parameter updates. Names and defaults are optax's.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "easydel/optim/schedules.h"
#include "easydel/optim/transformation.h"

namespace easydel::optim {

// Each takes a learning rate, a schedule, or its options: adamw(1e-4), adamw(schedule), adamw({.learning_rate = 1e-4,
// .weight_decay = 0.01}). ConfigError names an option out of range. Moments have the parameter's dtype unless an option
// sets another; they are computed in float32 at least.

struct AdamOptions {
  Schedule learning_rate = 1e-3;
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  double eps_root = 0;
  std::optional<at::ScalarType> mu_dtype = {};
  bool nesterov = false;
};
GradientTransformation adam(const AdamOptions& options);
GradientTransformation adam(const Schedule& learning_rate);
GradientTransformation scale_by_adam(const AdamOptions& options = {});  // without the learning rate

// apply() is torch's fused kernel if dtypes are the same and there is neither nesterov nor eps_root.
struct AdamwOptions {
  Schedule learning_rate = 1e-3;
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  double eps_root = 0;
  std::optional<at::ScalarType> mu_dtype = {};
  double weight_decay = 1e-4;
  Mask mask = {};  // which parameters decay; empty: all
  bool nesterov = false;
};
GradientTransformation adamw(const AdamwOptions& options);
GradientTransformation adamw(const Schedule& learning_rate);

// adamw with moments in 8 bits: bitsandbytes' dynamic code book and its blocks of 256 elements, each with a float32
// scale, about 2 bytes for each parameter. Small parameters have moments in float32. On a mesh every rank has all
// scales, so that a step equals that of one device.
struct Adamw8bitOptions {
  Schedule learning_rate = 1e-3;
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-4;
  Mask mask = {};                // which parameters decay; empty: all
  int64_t min_8bit_size = 4096;  // elements of the full parameter; moments of smaller ones are float32
  Mask full_precision = {};      // which parameters have float32 moments whatever their size; empty: none
};
GradientTransformation adamw_8bit(const Adamw8bitOptions& options);
GradientTransformation adamw_8bit(const Schedule& learning_rate);

// apply() is torch's fused kernel if dtypes are the same.
struct SgdOptions {
  Schedule learning_rate = 1e-3;
  std::optional<double> momentum = {};
  bool nesterov = false;
  std::optional<at::ScalarType> accumulator_dtype = {};
};
GradientTransformation sgd(const SgdOptions& options);
GradientTransformation sgd(const Schedule& learning_rate);

struct LionOptions {
  Schedule learning_rate = 1e-4;
  double b1 = 0.9;
  double b2 = 0.99;
  std::optional<at::ScalarType> mu_dtype = {};
  double weight_decay = 1e-3;
  Mask mask = {};
};
GradientTransformation lion(const LionOptions& options);
GradientTransformation lion(const Schedule& learning_rate);

struct RmspropOptions {
  Schedule learning_rate = 1e-3;
  double decay = 0.9;
  double eps = 1e-8;
  double initial_scale = 0;
  bool eps_in_sqrt = true;
  bool centered = false;
  std::optional<double> momentum = {};
  bool nesterov = false;
  bool bias_correction = false;
};
GradientTransformation rmsprop(const RmspropOptions& options);
GradientTransformation rmsprop(const Schedule& learning_rate);
GradientTransformation scale_by_rms(const RmspropOptions& options = {});  // or by the deviation, when centered

// Second moments of a large matrix are stored as sums over its rows and its columns. On a mesh these are sums over the
// full dimension, sharded by the parameter's spec without it; or replicated, if the parameter is not split evenly
// (heads, a fused projection).
struct AdafactorOptions {
  std::optional<Schedule> learning_rate = {};
  int64_t min_dim_size_to_factor = 128;
  double decay_rate = 0.8;
  int64_t decay_offset = 0;
  bool multiply_by_parameter_scale = true;
  std::optional<double> clipping_threshold = 1.0;
  std::optional<double> momentum = {};
  at::ScalarType dtype_momentum = at::kFloat;
  std::optional<Schedule> weight_decay_rate = {};
  double eps = 1e-30;
  bool factored = true;
  Mask weight_decay_mask = {};
};
GradientTransformation adafactor(const AdafactorOptions& options);
GradientTransformation adafactor(const Schedule& learning_rate);
GradientTransformation scale_by_factored_rms(const AdafactorOptions& options = {});

// Momentum orthogonalized by Newton-Schulz steps for matrices, adamw for everything else. On a mesh each rank gathers
// one full matrix at a time.
struct MuonOptions {
  Schedule learning_rate = 1e-3;
  std::vector<std::array<double, 3>> ns_coeffs = {{3.4445, -4.7750, 2.0315}};  // one for all steps, or one for each
  int64_t ns_steps = 5;
  double beta = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  Mask weight_decay_mask = {};
  std::optional<at::ScalarType> mu_dtype = {};
  bool nesterov = true;
  bool adaptive = false;
  std::string preconditioning = "frobenius";  // "spectral", "aol", "schatten"
  double adam_b1 = 0.9;
  double adam_b2 = 0.999;
  double adam_eps_root = 0;
  double adam_weight_decay = 0;
  std::optional<Schedule> adam_learning_rate = {};  // the same
  std::optional<double> consistent_rms = {};
  // The dimension that a product sums over: optax's 0 is for x W, a Linear here is W x and has its inputs in 1.
  int64_t reduction_axis = 0;
  Mask matrices = {};  // which of the 2-D parameters; empty: all
};
GradientTransformation muon(const MuonOptions& options);
GradientTransformation muon(const Schedule& learning_rate);
GradientTransformation scale_by_muon(const MuonOptions& options = {});
GradientTransformation scale_by_shape(const MuonOptions& options = {});

}  // namespace easydel::optim
