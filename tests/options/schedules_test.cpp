// What the options of the schedules do: values that can be worked out by hand.
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/optim/schedules.h"
#include "tests/support/probe.h"

namespace easydel::optim {
namespace {

using testing_support::is_refused;

// A line from 1 to 0 over four steps.
PolynomialOptions line() { return {.init_value = 1, .transition_steps = 4}; }

PROBE(PolynomialOptions, init_value) {
  PolynomialOptions options = line();
  options.init_value = 3;
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(1), 2.25);
}
PROBE(PolynomialOptions, end_value) {
  PolynomialOptions options = line();
  options.end_value = 0.5;
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(9), 0.5);
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(2), 0.75);
}
PROBE(PolynomialOptions, power) {
  PolynomialOptions options = line();
  options.power = 2;
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(2), 0.25);
}
PROBE(PolynomialOptions, transition_steps) {
  PolynomialOptions options = line();
  options.transition_steps = 8;
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(2), 0.75);
}
PROBE(PolynomialOptions, transition_begin) {
  PolynomialOptions options = line();
  options.transition_begin = 2;
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(2), 1);
  EXPECT_DOUBLE_EQ(polynomial_schedule(options)(4), 0.5);
}

CosineDecayOptions cosine() { return {.init_value = 1, .decay_steps = 4}; }

PROBE(CosineDecayOptions, init_value) {
  CosineDecayOptions options = cosine();
  options.init_value = 3;
  EXPECT_DOUBLE_EQ(cosine_decay_schedule(options)(2), 1.5);
}
PROBE(CosineDecayOptions, decay_steps) {
  CosineDecayOptions options = cosine();
  options.decay_steps = 8;
  EXPECT_DOUBLE_EQ(cosine_decay_schedule(options)(4), 0.5);
  options.decay_steps = 0;
  EXPECT_TRUE(is_refused("decay_steps", [&] { cosine_decay_schedule(options); }));
}
PROBE(CosineDecayOptions, alpha) {
  CosineDecayOptions options = cosine();
  options.alpha = 0.25;
  EXPECT_DOUBLE_EQ(cosine_decay_schedule(options)(4), 0.25);
}
PROBE(CosineDecayOptions, exponent) {
  CosineDecayOptions options = cosine();
  options.exponent = 2;
  EXPECT_DOUBLE_EQ(cosine_decay_schedule(options)(2), 0.25);
}

// Halves every four steps.
ExponentialDecayOptions halving() { return {.init_value = 1, .transition_steps = 4, .decay_rate = 0.5}; }

PROBE(ExponentialDecayOptions, init_value) {
  ExponentialDecayOptions options = halving();
  options.init_value = 3;
  EXPECT_DOUBLE_EQ(exponential_decay(options)(4), 1.5);
}
PROBE(ExponentialDecayOptions, transition_steps) {
  ExponentialDecayOptions options = halving();
  options.transition_steps = 2;
  EXPECT_DOUBLE_EQ(exponential_decay(options)(4), 0.25);
}
PROBE(ExponentialDecayOptions, decay_rate) {
  ExponentialDecayOptions options = halving();
  options.decay_rate = 0.25;
  EXPECT_DOUBLE_EQ(exponential_decay(options)(2), 0.5);
}
PROBE(ExponentialDecayOptions, transition_begin) {
  ExponentialDecayOptions options = halving();
  options.transition_begin = 3;
  EXPECT_DOUBLE_EQ(exponential_decay(options)(3), 1);
  EXPECT_DOUBLE_EQ(exponential_decay(options)(7), 0.5);
}
PROBE(ExponentialDecayOptions, staircase) {
  ExponentialDecayOptions options = halving();
  EXPECT_DOUBLE_EQ(exponential_decay(options)(6), std::pow(0.5, 1.5));
  options.staircase = true;
  EXPECT_DOUBLE_EQ(exponential_decay(options)(6), 0.5);
}
PROBE(ExponentialDecayOptions, end_value) {
  ExponentialDecayOptions options = halving();
  options.end_value = 0.375;
  EXPECT_DOUBLE_EQ(exponential_decay(options)(8), 0.375);
}

// Up over two steps, and down over four.
WarmupCosineOptions warm_cosine() { return {.init_value = 0, .peak_value = 1, .warmup_steps = 2, .decay_steps = 6}; }

PROBE(WarmupCosineOptions, init_value) {
  WarmupCosineOptions options = warm_cosine();
  options.init_value = 0.5;
  EXPECT_DOUBLE_EQ(warmup_cosine_decay_schedule(options)(1), 0.75);
}
PROBE(WarmupCosineOptions, peak_value) {
  WarmupCosineOptions options = warm_cosine();
  options.peak_value = 2;
  EXPECT_DOUBLE_EQ(warmup_cosine_decay_schedule(options)(2), 2);
}
PROBE(WarmupCosineOptions, warmup_steps) {
  WarmupCosineOptions options = warm_cosine();
  options.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(warmup_cosine_decay_schedule(options)(1), 0.25);
}
PROBE(WarmupCosineOptions, decay_steps) {
  WarmupCosineOptions options = warm_cosine();
  options.decay_steps = 10;
  EXPECT_DOUBLE_EQ(warmup_cosine_decay_schedule(options)(6), 0.5);
  options.decay_steps = 2;
  EXPECT_TRUE(is_refused("decay_steps", [&] { warmup_cosine_decay_schedule(options); }));
}
PROBE(WarmupCosineOptions, end_value) {
  WarmupCosineOptions options = warm_cosine();
  options.end_value = 0.25;
  EXPECT_DOUBLE_EQ(warmup_cosine_decay_schedule(options)(6), 0.25);
}
PROBE(WarmupCosineOptions, exponent) {
  WarmupCosineOptions options = warm_cosine();
  options.exponent = 2;
  EXPECT_DOUBLE_EQ(warmup_cosine_decay_schedule(options)(4), 0.25);
}

// Up over two steps, and halved every four after them.
WarmupExponentialOptions warm_exponential() {
  return {.init_value = 0, .peak_value = 1, .warmup_steps = 2, .transition_steps = 4, .decay_rate = 0.5};
}
double warm_exponential_at(const WarmupExponentialOptions& options, int64_t step) {
  return warmup_exponential_decay_schedule(options)(step);
}

PROBE(WarmupExponentialOptions, init_value) {
  WarmupExponentialOptions options = warm_exponential();
  options.init_value = 0.5;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 1), 0.75);
}
PROBE(WarmupExponentialOptions, peak_value) {
  WarmupExponentialOptions options = warm_exponential();
  options.peak_value = 2;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 6), 1);
}
PROBE(WarmupExponentialOptions, warmup_steps) {
  WarmupExponentialOptions options = warm_exponential();
  options.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 1), 0.25);
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 8), 0.5);
}
PROBE(WarmupExponentialOptions, transition_steps) {
  WarmupExponentialOptions options = warm_exponential();
  options.transition_steps = 2;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 6), 0.25);
}
PROBE(WarmupExponentialOptions, decay_rate) {
  WarmupExponentialOptions options = warm_exponential();
  options.decay_rate = 0.25;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 6), 0.25);
}
PROBE(WarmupExponentialOptions, transition_begin) {
  WarmupExponentialOptions options = warm_exponential();
  options.transition_begin = 3;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 5), 1);
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 9), 0.5);
}
PROBE(WarmupExponentialOptions, staircase) {
  WarmupExponentialOptions options = warm_exponential();
  options.staircase = true;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 9), 0.5);
}
PROBE(WarmupExponentialOptions, end_value) {
  WarmupExponentialOptions options = warm_exponential();
  options.end_value = 0.375;
  EXPECT_DOUBLE_EQ(warm_exponential_at(options, 10), 0.375);
}

// Up over two steps, and down over four.
WarmupLinearOptions warm_linear() { return {.init_value = 0, .peak_value = 1, .warmup_steps = 2, .decay_steps = 6}; }

PROBE(WarmupLinearOptions, init_value) {
  WarmupLinearOptions options = warm_linear();
  options.init_value = 0.5;
  EXPECT_DOUBLE_EQ(warmup_linear_decay_schedule(options)(1), 0.75);
}
PROBE(WarmupLinearOptions, peak_value) {
  WarmupLinearOptions options = warm_linear();
  options.peak_value = 2;
  EXPECT_DOUBLE_EQ(warmup_linear_decay_schedule(options)(4), 1);
}
PROBE(WarmupLinearOptions, warmup_steps) {
  WarmupLinearOptions options = warm_linear();
  options.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(warmup_linear_decay_schedule(options)(1), 0.25);
}
PROBE(WarmupLinearOptions, decay_steps) {
  WarmupLinearOptions options = warm_linear();
  options.decay_steps = 10;
  EXPECT_DOUBLE_EQ(warmup_linear_decay_schedule(options)(6), 0.5);
  options.decay_steps = 2;
  EXPECT_TRUE(is_refused("decay_steps", [&] { warmup_linear_decay_schedule(options); }));
}
PROBE(WarmupLinearOptions, end_value) {
  WarmupLinearOptions options = warm_linear();
  options.end_value = 0.5;
  EXPECT_DOUBLE_EQ(warmup_linear_decay_schedule(options)(4), 0.75);
}

// Up over two steps, along for four, down over four.
WarmupStableDecayOptions stable() {
  return {.init_value = 0, .peak_value = 1, .warmup_steps = 2, .decay_steps = 4, .total_steps = 10};
}

PROBE(WarmupStableDecayOptions, init_value) {
  WarmupStableDecayOptions options = stable();
  options.init_value = 0.5;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(1), 0.75);
}
PROBE(WarmupStableDecayOptions, peak_value) {
  WarmupStableDecayOptions options = stable();
  options.peak_value = 2;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(4), 2);
}
PROBE(WarmupStableDecayOptions, warmup_steps) {
  WarmupStableDecayOptions options = stable();
  options.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(1), 0.25);
}
PROBE(WarmupStableDecayOptions, decay_steps) {
  WarmupStableDecayOptions options = stable();
  options.decay_steps = 8;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(6), 0.5);
}
PROBE(WarmupStableDecayOptions, total_steps) {
  WarmupStableDecayOptions options = stable();
  options.total_steps = 20;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(10), 1);
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(18), 0.5);
  options.total_steps = 5;
  EXPECT_TRUE(is_refused("total_steps", [&] { warmup_stable_decay_schedule(options); }));
}
PROBE(WarmupStableDecayOptions, end_value) {
  WarmupStableDecayOptions options = stable();
  options.end_value = 0.5;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(10), 0.5);
}
PROBE(WarmupStableDecayOptions, cosine) {
  WarmupStableDecayOptions options = stable();
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(7), 0.75);
  options.cosine = true;
  EXPECT_DOUBLE_EQ(warmup_stable_decay_schedule(options)(7), 0.5 * (1 + std::cos(std::acos(-1.0) / 4)));
}

}  // namespace
}  // namespace easydel::optim
