// Schedules: numbers that change with the step, such as the learning rate. Named and computed as in optax.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace easydel::optim {

// A function of the step, which counts from 0, and a name to print. A number is a constant schedule.
class Schedule {
 public:
  Schedule(double value);
  Schedule(std::string name, std::function<double(int64_t step)> function);
  template <class F>
    requires std::invocable<const F&, int64_t> && (!std::same_as<F, Schedule>)
  Schedule(F function) : Schedule("custom", std::function<double(int64_t)>(std::move(function))) {}

  double operator()(int64_t step) const { return constant_ ? *constant_ : function_(step); }
  const std::string& name() const { return name_; }
  const std::optional<double>& constant() const { return constant_; }  // the number, if constant

 private:
  std::string name_;
  std::function<double(int64_t)> function_;
  std::optional<double> constant_;
};

Schedule constant_schedule(double value);

struct PolynomialOptions {
  double init_value = 0;
  double end_value = 0;
  double power = 1;
  int64_t transition_steps = 0;  // constant init_value if not positive
  int64_t transition_begin = 0;
};
Schedule polynomial_schedule(const PolynomialOptions& options);
Schedule linear_schedule(double init_value, double end_value, int64_t transition_steps, int64_t transition_begin = 0);

struct CosineDecayOptions {
  double init_value = 0;
  int64_t decay_steps = 0;
  double alpha = 0;  // the final value, as a fraction of init_value
  double exponent = 1;
};
Schedule cosine_decay_schedule(const CosineDecayOptions& options);

struct ExponentialDecayOptions {
  double init_value = 0;
  int64_t transition_steps = 0;
  double decay_rate = 0;
  int64_t transition_begin = 0;
  bool staircase = false;
  std::optional<double> end_value = {};  // a bound: from below when it decays, from above when it grows
};
Schedule exponential_decay(const ExponentialDecayOptions& options);

using Boundaries = std::map<int64_t, double>;  // step to factor
Schedule piecewise_constant_schedule(double init_value, const Boundaries& boundaries_and_scales = {});
// "linear" or "cosine" between the boundaries.
Schedule piecewise_interpolate_schedule(const std::string& interpolate_type, double init_value,
                                        const Boundaries& boundaries_and_scales = {});

// The i-th schedule applies from boundaries[i - 1] on, starting with its own step 0.
Schedule join_schedules(std::vector<Schedule> schedules, std::vector<int64_t> boundaries);

Schedule warmup_constant_schedule(double init_value, double peak_value, int64_t warmup_steps);

struct WarmupCosineOptions {
  double init_value = 0;
  double peak_value = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // in total, including the warmup
  double end_value = 0;
  double exponent = 1;
};
Schedule warmup_cosine_decay_schedule(const WarmupCosineOptions& options);

struct WarmupExponentialOptions {
  double init_value = 0;
  double peak_value = 0;
  int64_t warmup_steps = 0;
  int64_t transition_steps = 0;
  double decay_rate = 0;
  int64_t transition_begin = 0;
  bool staircase = false;
  std::optional<double> end_value = {};
};
Schedule warmup_exponential_decay_schedule(const WarmupExponentialOptions& options);

struct WarmupLinearOptions {
  double init_value = 0;
  double peak_value = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // in total, including the warmup
  double end_value = 0;
};
Schedule warmup_linear_decay_schedule(const WarmupLinearOptions& options);

// Warmup, constant, decay: the last decay_steps of total_steps go from the peak to end_value.
struct WarmupStableDecayOptions {
  double init_value = 0;
  double peak_value = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  int64_t total_steps = 0;
  double end_value = 0;
  bool cosine = false;  // the decay; otherwise linear
};
Schedule warmup_stable_decay_schedule(const WarmupStableDecayOptions& options);

}  // namespace easydel::optim
