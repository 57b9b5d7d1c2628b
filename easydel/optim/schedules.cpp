#include "easydel/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>

#include "easydel/core/error.h"

namespace easydel::optim {
namespace {

void require_finite(const char* where, const char* key, double value) {
  require<ConfigError>(std::isfinite(value), "[", where, "] ", key, " must be finite; got ", value, ".");
}

void require_positive(const char* where, const char* key, int64_t value) {
  require<ConfigError>(value > 0, "[", where, "] ", key, " must be positive; got ", value, ".");
}

void require_not_negative(const char* where, const char* key, int64_t value) {
  require<ConfigError>(value >= 0, "[", where, "] ", key, " must not be negative; got ", value, ".");
}

void require_scales(const char* where, const Boundaries& boundaries) {
  for (const auto& [step, scale] : boundaries) {
    require<ConfigError>(std::isfinite(scale) && scale >= 0, "[", where,
                         "] a scale must be finite and not negative; got ", scale, " from step ", step, " on.");
  }
}

}  // namespace

Schedule::Schedule(double value) : name_("constant"), constant_(value) {}

Schedule::Schedule(std::string name, std::function<double(int64_t)> function)
    : name_(std::move(name)), function_(std::move(function)) {
  require<ConfigError>(function_ != nullptr, "[Schedule] \"", name_, "\" needs a function; got an empty one.");
}

Schedule constant_schedule(double value) { return {value}; }

Schedule polynomial_schedule(const PolynomialOptions& o) {
  require_finite("polynomial_schedule", "init_value", o.init_value);
  require_finite("polynomial_schedule", "end_value", o.end_value);
  require_finite("polynomial_schedule", "power", o.power);
  if (o.transition_steps <= 0) return {o.init_value};
  return {"polynomial", [o, begin = std::max<int64_t>(o.transition_begin, 0)](int64_t step) {
            const int64_t count = std::clamp<int64_t>(step - begin, 0, o.transition_steps);
            const double left = 1 - static_cast<double>(count) / static_cast<double>(o.transition_steps);
            return (o.init_value - o.end_value) * std::pow(left, o.power) + o.end_value;
          }};
}

Schedule linear_schedule(double init_value, double end_value, int64_t transition_steps, int64_t transition_begin) {
  const Schedule line = polynomial_schedule({.init_value = init_value,
                                             .end_value = end_value,
                                             .transition_steps = transition_steps,
                                             .transition_begin = transition_begin});
  if (line.constant()) return line;
  return {"linear", line};
}

Schedule cosine_decay_schedule(const CosineDecayOptions& o) {
  require_finite("cosine_decay_schedule", "init_value", o.init_value);
  require_finite("cosine_decay_schedule", "alpha", o.alpha);
  require_finite("cosine_decay_schedule", "exponent", o.exponent);
  require_positive("cosine_decay_schedule", "decay_steps", o.decay_steps);
  return {"cosine", [o](int64_t step) {
            const double done = static_cast<double>(std::min(step, o.decay_steps)) / static_cast<double>(o.decay_steps);
            const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * done));
            return o.init_value * ((1 - o.alpha) * std::pow(cosine, o.exponent) + o.alpha);
          }};
}

Schedule exponential_decay(const ExponentialDecayOptions& o) {
  require_finite("exponential_decay", "init_value", o.init_value);
  require_finite("exponential_decay", "decay_rate", o.decay_rate);
  if (o.transition_steps <= 0 || o.decay_rate == 0) return {o.init_value};
  return {"exponential", [o, begin = std::max<int64_t>(o.transition_begin, 0)](int64_t step) {
            const int64_t count = step - begin;
            double power = static_cast<double>(count) / static_cast<double>(o.transition_steps);
            if (o.staircase) power = std::floor(power);
            const double value = count <= 0 ? o.init_value : o.init_value * std::pow(o.decay_rate, power);
            if (!o.end_value) return value;
            return o.decay_rate < 1 ? std::max(value, *o.end_value) : std::min(value, *o.end_value);
          }};
}

Schedule piecewise_constant_schedule(double init_value, const Boundaries& boundaries) {
  require_finite("piecewise_constant_schedule", "init_value", init_value);
  require_scales("piecewise_constant_schedule", boundaries);
  return {"piecewise_constant", [=](int64_t step) {
            double value = init_value;
            for (const auto& [from, scale] : boundaries) {
              if (step >= from) value *= scale;
            }
            return value;
          }};
}

Schedule piecewise_interpolate_schedule(const std::string& type, double init_value, const Boundaries& boundaries) {
  require<ConfigError>(type == "linear" || type == "cosine",
                       "[piecewise_interpolate_schedule] interpolate_type must be \"linear\" or \"cosine\"; got \"",
                       type, "\".");
  require_finite("piecewise_interpolate_schedule", "init_value", init_value);
  require_scales("piecewise_interpolate_schedule", boundaries);
  return {"piecewise_" + type, [=, cosine = type == "cosine"](int64_t step) {
            int64_t from = 0;
            double value = init_value;
            for (const auto& [to, scale] : boundaries) {
              const double next = value * scale;
              if (from <= step && step < to) {
                const double part =
                    static_cast<double>(step - from) / static_cast<double>(std::max<int64_t>(to - from, 1));
                if (!cosine) return (next - value) * part + value;
                return next + (value - next) / 2 * (std::cos(std::numbers::pi * part) + 1);
              }
              from = to;
              value = next;
            }
            return value;
          }};
}

Schedule join_schedules(std::vector<Schedule> schedules, std::vector<int64_t> boundaries) {
  require<ConfigError>(!schedules.empty() && boundaries.size() + 1 == schedules.size(),
                       "[join_schedules] there must be one boundary less than schedules; got ", boundaries.size(),
                       " boundaries and ", schedules.size(), " schedules.");
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    require<ConfigError>(boundaries[i] >= boundaries[i - 1], "[join_schedules] boundaries must not decrease; got ",
                         boundaries[i], " after ", boundaries[i - 1], ".");
  }
  std::string name;
  for (const Schedule& schedule : schedules) name += (name.empty() ? "" : "+") + schedule.name();
  return {name, [schedules = std::move(schedules), boundaries = std::move(boundaries)](int64_t step) {
            const auto after = std::upper_bound(boundaries.begin(), boundaries.end(), step) - boundaries.begin();
            const int64_t begin = after == 0 ? 0 : boundaries[static_cast<std::size_t>(after - 1)];
            return schedules[static_cast<std::size_t>(after)](step - begin);
          }};
}

Schedule warmup_constant_schedule(double init_value, double peak_value, int64_t warmup_steps) {
  return {"warmup_constant", linear_schedule(init_value, peak_value, warmup_steps)};
}

Schedule warmup_cosine_decay_schedule(const WarmupCosineOptions& o) {
  require<ConfigError>(o.decay_steps > o.warmup_steps,
                       "[warmup_cosine_decay_schedule] decay_steps must be more than warmup_steps; got ", o.decay_steps,
                       " and ", o.warmup_steps, ".");
  const double alpha = o.peak_value == 0 ? 0 : o.end_value / o.peak_value;
  return {"warmup_cosine", join_schedules({linear_schedule(o.init_value, o.peak_value, o.warmup_steps),
                                           cosine_decay_schedule({.init_value = o.peak_value,
                                                                  .decay_steps = o.decay_steps - o.warmup_steps,
                                                                  .alpha = alpha,
                                                                  .exponent = o.exponent})},
                                          {o.warmup_steps})};
}

Schedule warmup_exponential_decay_schedule(const WarmupExponentialOptions& o) {
  return {"warmup_exponential", join_schedules({linear_schedule(o.init_value, o.peak_value, o.warmup_steps),
                                                exponential_decay({.init_value = o.peak_value,
                                                                   .transition_steps = o.transition_steps,
                                                                   .decay_rate = o.decay_rate,
                                                                   .transition_begin = o.transition_begin,
                                                                   .staircase = o.staircase,
                                                                   .end_value = o.end_value})},
                                               {o.warmup_steps})};
}

Schedule warmup_linear_decay_schedule(const WarmupLinearOptions& o) {
  require<ConfigError>(o.decay_steps > o.warmup_steps,
                       "[warmup_linear_decay_schedule] decay_steps must be more than warmup_steps; got ", o.decay_steps,
                       " and ", o.warmup_steps, ".");
  return {"warmup_linear", join_schedules({linear_schedule(o.init_value, o.peak_value, o.warmup_steps),
                                           linear_schedule(o.peak_value, o.end_value, o.decay_steps - o.warmup_steps)},
                                          {o.warmup_steps})};
}

Schedule warmup_stable_decay_schedule(const WarmupStableDecayOptions& o) {
  require_not_negative("warmup_stable_decay_schedule", "warmup_steps", o.warmup_steps);
  require_positive("warmup_stable_decay_schedule", "decay_steps", o.decay_steps);
  require<ConfigError>(o.total_steps >= o.warmup_steps + o.decay_steps,
                       "[warmup_stable_decay_schedule] total_steps must be at least warmup_steps + decay_steps; got ",
                       o.total_steps, " for ", o.warmup_steps, " and ", o.decay_steps, ".");
  const double alpha = o.peak_value == 0 ? 0 : o.end_value / o.peak_value;
  const Schedule down =
      o.cosine ? cosine_decay_schedule({.init_value = o.peak_value, .decay_steps = o.decay_steps, .alpha = alpha})
               : linear_schedule(o.peak_value, o.end_value, o.decay_steps);
  return {"warmup_stable_decay", join_schedules({linear_schedule(o.init_value, o.peak_value, o.warmup_steps),
                                                 constant_schedule(o.peak_value), down},
                                                {o.warmup_steps, o.total_steps - o.decay_steps})};
}

}  // namespace easydel::optim
