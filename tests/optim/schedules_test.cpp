#include "easydel/optim/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "tests/support/python.h"

namespace easydel::optim {
namespace {

using testing::ThrowsMessage;

struct Case {
  Schedule schedule;
  const char* function;
  Json keywords;
};

Json object(const char* text) { return Json::parse(text); }

std::vector<Case> cases() {
  const Boundaries boundaries{{5, 0.5}, {20, 0.1}, {21, 3.0}};
  return {
      {constant_schedule(0.3), "constant_schedule", object(R"({"value": 0.3})")},
      {linear_schedule(0.1, 0.9, 37, 4), "linear_schedule",
       object(R"({"init_value": 0.1, "end_value": 0.9, "transition_steps": 37, "transition_begin": 4})")},
      {linear_schedule(0.1, 0.9, 0), "linear_schedule",
       object(R"({"init_value": 0.1, "end_value": 0.9, "transition_steps": 0})")},
      {polynomial_schedule({.init_value = 2e-3, .end_value = 1e-5, .power = 2.5, .transition_steps = 50}),
       "polynomial_schedule",
       object(R"({"init_value": 2e-3, "end_value": 1e-5, "power": 2.5, "transition_steps": 50})")},
      {polynomial_schedule(
           {.init_value = 1, .end_value = 3, .power = 0.5, .transition_steps = 9, .transition_begin = -3}),
       "polynomial_schedule",
       object(R"({"init_value": 1, "end_value": 3, "power": 0.5, "transition_steps": 9, "transition_begin": -3})")},
      {cosine_decay_schedule({.init_value = 1e-3, .decay_steps = 60}), "cosine_decay_schedule",
       object(R"({"init_value": 1e-3, "decay_steps": 60})")},
      {cosine_decay_schedule({.init_value = 1e-3, .decay_steps = 60, .alpha = 0.1, .exponent = 1.5}),
       "cosine_decay_schedule", object(R"({"init_value": 1e-3, "decay_steps": 60, "alpha": 0.1, "exponent": 1.5})")},
      {exponential_decay({.init_value = 0.5, .transition_steps = 10, .decay_rate = 0.7}), "exponential_decay",
       object(R"({"init_value": 0.5, "transition_steps": 10, "decay_rate": 0.7})")},
      {exponential_decay({.init_value = 0.5,
                          .transition_steps = 10,
                          .decay_rate = 0.7,
                          .transition_begin = 7,
                          .staircase = true,
                          .end_value = 0.1}),
       "exponential_decay", object(R"({"init_value": 0.5, "transition_steps": 10, "decay_rate": 0.7,
                                       "transition_begin": 7, "staircase": true, "end_value": 0.1})")},
      {exponential_decay({.init_value = 0.5, .transition_steps = 10, .decay_rate = 1.4, .end_value = 2.0}),
       "exponential_decay",
       object(R"({"init_value": 0.5, "transition_steps": 10, "decay_rate": 1.4, "end_value": 2.0})")},
      {piecewise_constant_schedule(0.8, boundaries), "piecewise_constant_schedule",
       object(R"({"init_value": 0.8, "boundaries_and_scales": {"5": 0.5, "20": 0.1, "21": 3.0}})")},
      {piecewise_interpolate_schedule("linear", 0.8, boundaries), "piecewise_interpolate_schedule",
       object(R"({"interpolate_type": "linear", "init_value": 0.8,
                  "boundaries_and_scales": {"5": 0.5, "20": 0.1, "21": 3.0}})")},
      {piecewise_interpolate_schedule("cosine", 0.8, boundaries), "piecewise_interpolate_schedule",
       object(R"({"interpolate_type": "cosine", "init_value": 0.8,
                  "boundaries_and_scales": {"5": 0.5, "20": 0.1, "21": 3.0}})")},
      {warmup_constant_schedule(0, 1e-3, 12), "warmup_constant_schedule",
       object(R"({"init_value": 0, "peak_value": 1e-3, "warmup_steps": 12})")},
      {warmup_cosine_decay_schedule({.init_value = 1e-8,
                                     .peak_value = 1e-3,
                                     .warmup_steps = 12,
                                     .decay_steps = 70,
                                     .end_value = 1e-5,
                                     .exponent = 2}),
       "warmup_cosine_decay_schedule", object(R"({"init_value": 1e-8, "peak_value": 1e-3, "warmup_steps": 12,
                                                  "decay_steps": 70, "end_value": 1e-5, "exponent": 2})")},
      {warmup_exponential_decay_schedule({.init_value = 0,
                                          .peak_value = 1e-3,
                                          .warmup_steps = 12,
                                          .transition_steps = 8,
                                          .decay_rate = 0.9,
                                          .transition_begin = 3}),
       "warmup_exponential_decay_schedule", object(R"({"init_value": 0, "peak_value": 1e-3, "warmup_steps": 12,
                                                       "transition_steps": 8, "decay_rate": 0.9,
                                                       "transition_begin": 3})")},
      {warmup_linear_decay_schedule(
           {.init_value = 0, .peak_value = 1e-3, .warmup_steps = 12, .decay_steps = 70, .end_value = 1e-5}),
       "join_schedules", object(R"({"boundaries": [12], "schedules": [
                  ["linear_schedule", {"init_value": 0, "end_value": 1e-3, "transition_steps": 12}],
                  ["linear_schedule", {"init_value": 1e-3, "end_value": 1e-5, "transition_steps": 58}]]})")},
      {warmup_stable_decay_schedule({.init_value = 0,
                                     .peak_value = 1e-3,
                                     .warmup_steps = 12,
                                     .decay_steps = 20,
                                     .total_steps = 80,
                                     .end_value = 1e-5}),
       "join_schedules", object(R"({"boundaries": [12, 60], "schedules": [
                  ["linear_schedule", {"init_value": 0, "end_value": 1e-3, "transition_steps": 12}],
                  ["constant_schedule", {"value": 1e-3}],
                  ["linear_schedule", {"init_value": 1e-3, "end_value": 1e-5, "transition_steps": 20}]]})")},
      {join_schedules({linear_schedule(0, 1, 5), cosine_decay_schedule({.init_value = 1, .decay_steps = 9}), 0.25},
                      {5, 5 + 9}),
       "join_schedules", object(R"({"boundaries": [5, 14], "schedules": [
                  ["linear_schedule", {"init_value": 0, "end_value": 1, "transition_steps": 5}],
                  ["cosine_decay_schedule", {"init_value": 1, "decay_steps": 9}],
                  ["constant_schedule", {"value": 0.25}]]})")},
  };
}

TEST(Schedules, EqualOptax) {
  Json steps = Json::array(), request = Json::array();
  for (int64_t step = 0; step <= 90; ++step) steps.push_back(step);
  steps.push_back(100000);
  const auto all = cases();
  for (const Case& c : all) request.push_back(Json::array({c.function, c.keywords, steps}));
  const Json expected = Json::parse(run_python("optim_peer.py", {"schedules", request.dump()}));
  ASSERT_EQ(expected.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    double largest = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      largest = std::max(largest, std::abs(expected.at(i).at(s).as_double()));
    }
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const double theirs = expected.at(i).at(s).as_double(), ours = all[i].schedule(steps.at(s).as_int());
      // If the final value is 0, the error is relative to the initial value.
      EXPECT_NEAR(ours, theirs, 1e-6 * std::max(std::abs(theirs), 1e-6 * largest))
          << all[i].function << all[i].keywords.dump() << " at " << steps.at(s).dump();
    }
  }
}

TEST(Schedules, AcceptNumbersAndFunctions) {
  const Schedule half = 0.5, twice = [](int64_t step) { return 2.0 * static_cast<double>(step); };
  EXPECT_EQ(half(7), 0.5);
  EXPECT_EQ(half.constant(), 0.5);
  EXPECT_EQ(half.name(), "constant");
  EXPECT_EQ(twice(7), 14);
  EXPECT_FALSE(twice.constant());
  EXPECT_EQ(linear_schedule(0, 1, 10).name(), "linear");
}

TEST(Schedules, RejectInvalidArguments) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT([] { cosine_decay_schedule({.init_value = 1, .decay_steps = 0}); },
              ThrowsMessage<ConfigError>("[cosine_decay_schedule] decay_steps must be positive; got 0."));
  EXPECT_THAT([] { linear_schedule(kNan, 0, 5); },
              ThrowsMessage<ConfigError>("[polynomial_schedule] init_value must be finite; got nan."));
  EXPECT_THAT([] { piecewise_constant_schedule(1, {{4, -0.5}}); },
              ThrowsMessage<ConfigError>("[piecewise_constant_schedule] a scale must be finite and not negative; got "
                                         "-0.5 from step 4 on."));
  EXPECT_THAT([] { piecewise_interpolate_schedule("cubic", 1); },
              ThrowsMessage<ConfigError>("[piecewise_interpolate_schedule] interpolate_type must be \"linear\" or "
                                         "\"cosine\"; got \"cubic\"."));
  EXPECT_THAT([] { join_schedules({1.0, 2.0}, {}); },
              ThrowsMessage<ConfigError>("[join_schedules] there must be one boundary less than schedules; got 0 "
                                         "boundaries and 2 schedules."));
  EXPECT_THAT([] { join_schedules({1.0, 2.0, 3.0}, {7, 3}); },
              ThrowsMessage<ConfigError>("[join_schedules] boundaries must not decrease; got 3 after 7."));
  EXPECT_THAT([] { warmup_cosine_decay_schedule({.peak_value = 1, .warmup_steps = 10, .decay_steps = 10}); },
              ThrowsMessage<ConfigError>("[warmup_cosine_decay_schedule] decay_steps must be more than warmup_steps; "
                                         "got 10 and 10."));
  EXPECT_THAT([] { warmup_stable_decay_schedule({.warmup_steps = 5, .decay_steps = 6, .total_steps = 10}); },
              ThrowsMessage<ConfigError>("[warmup_stable_decay_schedule] total_steps must be at least warmup_steps + "
                                         "decay_steps; got 10 for 5 and 6."));
}

}  // namespace
}  // namespace easydel::optim
