// What the options of the optimizers do: each against a few lines of plain arithmetic.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "easydel/optim/make_optimizer.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/params_ema.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/wrappers.h"
#include "tests/support/probe.h"
#include "tests/support/tensors.h"

namespace easydel::optim {
namespace {

using testing::DoubleNear;
using testing::Pointwise;
using testing_support::is_refused;

using Numbers = std::vector<double>;

const Numbers kGradients = {0.5, -0.25, 2.0};  // of three steps
constexpr double kStart = 1.5;

// A parameter after each step, and what the state looks like in the end.
struct Run {
  Numbers values;
  OptState state;
};

Run run(const GradientTransformation& tx, at::ScalarType dtype = at::kDouble) {
  TensorMap params{{"w", at::full({1}, kStart, dtype)}};
  Run result{.state = tx->init(params)};
  for (const double gradient : kGradients) {
    TensorMap gradients{{"w", at::full({1}, gradient, dtype)}};
    tx->apply(params, gradients, result.state);
    result.values.push_back(params.at("w").item<double>());
  }
  return result;
}

// What the options say is what is done, and not what is done without them.
template <class Options>
void expect_follows(GradientTransformation (*make)(const Options&), Numbers (*expected)(const Options&),
                    const Options& options, const Options& without) {
  const Numbers values = run(make(options)).values;
  EXPECT_THAT(values, Pointwise(DoubleNear(1e-9), expected(options)));
  EXPECT_THAT(run(make(without)).values, Pointwise(DoubleNear(1e-9), expected(without)));
  EXPECT_GT(std::abs(values.back() - run(make(without)).values.back()), 1e-6);
}

at::ScalarType moment_dtype(const GradientTransformation& tx, const std::string& tree) {
  const OptState state = run(tx, at::kFloat).state;
  for (const auto& [name, leaf] : state.leaves()) {
    if (name.find(tree + "/") != std::string::npos) return leaf->value.scalar_type();
  }
  return at::ScalarType::Undefined;
}

// Two parameters of ones after a step without gradients that matter: which of them decayed.
std::pair<double, double> decayed(const GradientTransformation& tx, at::IntArrayRef shape = {1}) {
  const auto ones = [&] { return at::ones(shape, at::kDouble); };
  TensorMap params{{"a", ones()}, {"b", ones()}}, gradients{{"a", ones() * 1e-3}, {"b", ones() * 1e-3}};
  OptState state = tx->init(params);
  tx->apply(params, gradients, state);
  return {params.at("a").flatten()[0].item<double>(), params.at("b").flatten()[0].item<double>()};
}

// adam and adamw -----------------------------------------------------------------------------------------------------

Numbers adamw_by_hand(const AdamwOptions& o) {
  Numbers values;
  double w = kStart, mu = 0, nu = 0;
  for (std::size_t i = 0; i < kGradients.size(); ++i) {
    const double g = kGradients[i], t = static_cast<double>(i) + 1;
    mu = o.b1 * mu + (1 - o.b1) * g;
    nu = o.b2 * nu + (1 - o.b2) * g * g;
    const double first = o.nesterov ? o.b1 * mu / (1 - std::pow(o.b1, t + 1)) + (1 - o.b1) * g / (1 - std::pow(o.b1, t))
                                    : mu / (1 - std::pow(o.b1, t));
    const double second = std::sqrt(nu / (1 - std::pow(o.b2, t)) + o.eps_root) + o.eps;
    w -= o.learning_rate(static_cast<int64_t>(i)) * (first / second + o.weight_decay * w);
    values.push_back(w);
  }
  return values;
}

Numbers adam_by_hand(const AdamOptions& o) {
  return adamw_by_hand({.learning_rate = o.learning_rate,
                        .b1 = o.b1,
                        .b2 = o.b2,
                        .eps = o.eps,
                        .eps_root = o.eps_root,
                        .weight_decay = 0,
                        .nesterov = o.nesterov});
}

void expect_adam(const AdamOptions& options) {
  expect_follows<AdamOptions>(adam, adam_by_hand, options, {.learning_rate = 0.1});
}
void expect_adamw(const AdamwOptions& options) {
  expect_follows<AdamwOptions>(adamw, adamw_by_hand, options, {.learning_rate = 0.1});
}

PROBE(AdamOptions, learning_rate) { expect_adam({.learning_rate = linear_schedule(0.5, 0.1, 2)}); }
PROBE(AdamOptions, b1) { expect_adam({.learning_rate = 0.1, .b1 = 0.5}); }
PROBE(AdamOptions, b2) { expect_adam({.learning_rate = 0.1, .b2 = 0.5}); }
PROBE(AdamOptions, eps) { expect_adam({.learning_rate = 0.1, .eps = 0.5}); }
PROBE(AdamOptions, eps_root) { expect_adam({.learning_rate = 0.1, .eps_root = 0.5}); }
PROBE(AdamOptions, mu_dtype) {
  EXPECT_EQ(moment_dtype(adam({.mu_dtype = at::kBFloat16}), "mu"), at::kBFloat16);
  EXPECT_EQ(moment_dtype(adam(1e-3), "mu"), at::kFloat);
}
PROBE(AdamOptions, nesterov) { expect_adam({.learning_rate = 0.1, .nesterov = true}); }

PROBE(AdamwOptions, learning_rate) { expect_adamw({.learning_rate = linear_schedule(0.5, 0.1, 2)}); }
PROBE(AdamwOptions, b1) { expect_adamw({.learning_rate = 0.1, .b1 = 0.5}); }
PROBE(AdamwOptions, b2) { expect_adamw({.learning_rate = 0.1, .b2 = 0.5}); }
PROBE(AdamwOptions, eps) { expect_adamw({.learning_rate = 0.1, .eps = 0.5}); }
PROBE(AdamwOptions, eps_root) { expect_adamw({.learning_rate = 0.1, .eps_root = 0.5}); }
PROBE(AdamwOptions, mu_dtype) {
  EXPECT_EQ(moment_dtype(adamw({.mu_dtype = at::kBFloat16}), "mu"), at::kBFloat16);
  EXPECT_EQ(moment_dtype(adamw(1e-3), "mu"), at::kFloat);
}
PROBE(AdamwOptions, weight_decay) { expect_adamw({.learning_rate = 0.1, .weight_decay = 0.5}); }
PROBE(AdamwOptions, mask) {
  const auto [a, b] = decayed(adamw({.learning_rate = 0.1, .weight_decay = 0.5, .mask = matching("a")}));
  EXPECT_NEAR(a, b - 0.1 * 0.5, 1e-12);
}
PROBE(AdamwOptions, nesterov) { expect_adamw({.learning_rate = 0.1, .nesterov = true}); }

// A parameter that is small enough for moments of full precision steps as adamw does.
Numbers adamw_8bit_by_hand(const Adamw8bitOptions& o) {
  return adamw_by_hand(
      {.learning_rate = o.learning_rate, .b1 = o.b1, .b2 = o.b2, .eps = o.eps, .weight_decay = o.weight_decay});
}
void expect_adamw_8bit(const Adamw8bitOptions& options) {
  expect_follows<Adamw8bitOptions>(adamw_8bit, adamw_8bit_by_hand, options, {.learning_rate = 0.1});
}
PROBE(Adamw8bitOptions, learning_rate) { expect_adamw_8bit({.learning_rate = linear_schedule(0.5, 0.1, 2)}); }
PROBE(Adamw8bitOptions, b1) { expect_adamw_8bit({.learning_rate = 0.1, .b1 = 0.5}); }
PROBE(Adamw8bitOptions, b2) { expect_adamw_8bit({.learning_rate = 0.1, .b2 = 0.5}); }
PROBE(Adamw8bitOptions, eps) { expect_adamw_8bit({.learning_rate = 0.1, .eps = 0.5}); }
PROBE(Adamw8bitOptions, weight_decay) { expect_adamw_8bit({.learning_rate = 0.1, .weight_decay = 0.5}); }
PROBE(Adamw8bitOptions, mask) {
  const auto [a, b] = decayed(adamw_8bit({.learning_rate = 0.1, .weight_decay = 0.5, .mask = matching("a")}));
  EXPECT_NEAR(a, b - 0.1 * 0.5, 1e-12);
}
PROBE(Adamw8bitOptions, min_8bit_size) {
  EXPECT_EQ(moment_dtype(adamw_8bit({.min_8bit_size = 1}), "mu"), at::kByte);
  EXPECT_EQ(moment_dtype(adamw_8bit({.min_8bit_size = 2}), "mu"), at::kFloat);
}
PROBE(Adamw8bitOptions, full_precision) {
  EXPECT_EQ(moment_dtype(adamw_8bit({.min_8bit_size = 1, .full_precision = matching("w")}), "nu"), at::kFloat);
  EXPECT_EQ(moment_dtype(adamw_8bit({.min_8bit_size = 1, .full_precision = matching("v")}), "nu"), at::kByte);
}

// sgd ----------------------------------------------------------------------------------------------------------------

Numbers sgd_by_hand(const SgdOptions& o) {
  Numbers values;
  double w = kStart, trace = 0;
  for (std::size_t i = 0; i < kGradients.size(); ++i) {
    const double g = kGradients[i], momentum = o.momentum.value_or(0);
    trace = momentum * trace + g;
    w -= o.learning_rate(static_cast<int64_t>(i)) * (o.nesterov ? g + momentum * trace : trace);
    values.push_back(w);
  }
  return values;
}

void expect_sgd(const SgdOptions& options, const SgdOptions& without = {.learning_rate = 0.1}) {
  expect_follows<SgdOptions>(sgd, sgd_by_hand, options, without);
}

PROBE(SgdOptions, learning_rate) { expect_sgd({.learning_rate = linear_schedule(0.5, 0.1, 2)}); }
PROBE(SgdOptions, momentum) { expect_sgd({.learning_rate = 0.1, .momentum = 0.9}); }
PROBE(SgdOptions, nesterov) {
  expect_sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, {.learning_rate = 0.1, .momentum = 0.9});
  EXPECT_TRUE(is_refused("nesterov", [] { sgd({.nesterov = true}); }));
}
PROBE(SgdOptions, accumulator_dtype) {
  EXPECT_EQ(moment_dtype(sgd({.momentum = 0.9, .accumulator_dtype = at::kBFloat16}), "trace"), at::kBFloat16);
  EXPECT_EQ(moment_dtype(sgd({.momentum = 0.9}), "trace"), at::kFloat);
}

// lion ---------------------------------------------------------------------------------------------------------------

Numbers lion_by_hand(const LionOptions& o) {
  Numbers values;
  double w = kStart, mu = 0;
  for (std::size_t i = 0; i < kGradients.size(); ++i) {
    const double g = kGradients[i], mixed = o.b1 * mu + (1 - o.b1) * g;
    mu = o.b2 * mu + (1 - o.b2) * g;
    w -= o.learning_rate(static_cast<int64_t>(i)) * ((mixed > 0 ? 1 : -1) + o.weight_decay * w);
    values.push_back(w);
  }
  return values;
}

void expect_lion(const LionOptions& options, const LionOptions& without = {.learning_rate = 0.1, .b2 = 0.5}) {
  expect_follows<LionOptions>(lion, lion_by_hand, options, without);
}

PROBE(LionOptions, learning_rate) { expect_lion({.learning_rate = linear_schedule(0.5, 0.1, 2), .b2 = 0.5}); }
// The second gradient points the other way: whether it wins depends on how much the first still counts.
PROBE(LionOptions, b1) { expect_lion({.learning_rate = 0.1, .b1 = 0.1, .b2 = 0.5}); }
PROBE(LionOptions, b2) { expect_lion({.learning_rate = 0.1, .b2 = 0.99}); }
PROBE(LionOptions, mu_dtype) {
  EXPECT_EQ(moment_dtype(lion({.mu_dtype = at::kBFloat16}), "mu"), at::kBFloat16);
  EXPECT_EQ(moment_dtype(lion(1e-3), "mu"), at::kFloat);
}
PROBE(LionOptions, weight_decay) { expect_lion({.learning_rate = 0.1, .b2 = 0.5, .weight_decay = 0.5}); }
PROBE(LionOptions, mask) {
  const auto [a, b] = decayed(lion({.learning_rate = 0.1, .weight_decay = 0.5, .mask = matching("a")}));
  EXPECT_NEAR(a, b - 0.1 * 0.5, 1e-12);
}

// rmsprop ------------------------------------------------------------------------------------------------------------

Numbers rmsprop_by_hand(const RmspropOptions& o) {
  Numbers values;
  double w = kStart, nu = o.initial_scale, mu = 0, trace = 0;
  for (std::size_t i = 0; i < kGradients.size(); ++i) {
    const double g = kGradients[i];
    const double correction = o.bias_correction ? 1 - std::pow(o.decay, static_cast<double>(i) + 1) : 1;
    nu = o.decay * nu + (1 - o.decay) * g * g;
    mu = o.decay * mu + (1 - o.decay) * g;
    const double variance = nu / correction - (o.centered ? mu * mu / (correction * correction) : 0);
    const double scale = o.eps_in_sqrt ? std::sqrt(variance + o.eps) : std::sqrt(variance) + o.eps;
    double update = -o.learning_rate(static_cast<int64_t>(i)) * g / scale;
    if (o.momentum) {
      trace = *o.momentum * trace + update;
      update = o.nesterov ? update + *o.momentum * trace : trace;
    }
    values.push_back(w += update);
  }
  return values;
}

void expect_rmsprop(const RmspropOptions& options, const RmspropOptions& without = {.learning_rate = 0.1}) {
  expect_follows<RmspropOptions>(rmsprop, rmsprop_by_hand, options, without);
}

PROBE(RmspropOptions, learning_rate) { expect_rmsprop({.learning_rate = linear_schedule(0.5, 0.1, 2)}); }
PROBE(RmspropOptions, decay) { expect_rmsprop({.learning_rate = 0.1, .decay = 0.5}); }
PROBE(RmspropOptions, eps) { expect_rmsprop({.learning_rate = 0.1, .eps = 0.5}); }
PROBE(RmspropOptions, initial_scale) { expect_rmsprop({.learning_rate = 0.1, .initial_scale = 1}); }
PROBE(RmspropOptions, eps_in_sqrt) {
  expect_rmsprop({.learning_rate = 0.1, .eps = 0.5, .eps_in_sqrt = false}, {.learning_rate = 0.1, .eps = 0.5});
}
PROBE(RmspropOptions, centered) { expect_rmsprop({.learning_rate = 0.1, .centered = true}); }
PROBE(RmspropOptions, momentum) { expect_rmsprop({.learning_rate = 0.1, .momentum = 0.9}); }
PROBE(RmspropOptions, nesterov) {
  expect_rmsprop({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, {.learning_rate = 0.1, .momentum = 0.9});
  EXPECT_TRUE(is_refused("nesterov", [] { rmsprop({.nesterov = true}); }));
}
PROBE(RmspropOptions, bias_correction) { expect_rmsprop({.learning_rate = 0.1, .bias_correction = true}); }

// adafactor ----------------------------------------------------------------------------------------------------------

// What a plain matrix becomes in a step, with nothing but what the options ask for.
const at::Tensor kMatrix = at::arange(1, 7, at::kDouble).view({2, 3});

AdafactorOptions plain_adafactor() {
  return {.min_dim_size_to_factor = 2,
          .multiply_by_parameter_scale = false,
          .clipping_threshold = std::nullopt,
          .factored = false};
}

at::Tensor adafactor_step(const AdafactorOptions& options, int steps = 1) {
  const auto tx = adafactor(options);
  TensorMap params{{"w", kMatrix.clone()}};
  OptState state = tx->init(params);
  for (int i = 0; i < steps; ++i) {
    TensorMap gradients{{"w", kMatrix * (i + 1)}};
    tx->apply(params, gradients, state);
  }
  return params.at("w") - kMatrix;
}

// The first decay is 1 - 1^-rate = 0: the moment is the gradient's square, and the update its sign.
PROBE(AdafactorOptions, learning_rate) {
  AdafactorOptions options = plain_adafactor();
  EXPECT_TRUE(is_close(adafactor_step(options), -at::ones_like(kMatrix)));
  options.learning_rate = 0.25;
  EXPECT_TRUE(is_close(adafactor_step(options), -0.25 * at::ones_like(kMatrix)));
}

at::Tensor factored_by_hand(const at::Tensor& gradient) {
  const at::Tensor squares = gradient.square();
  const at::Tensor rows = squares.mean(1, true), columns = squares.mean(0, true);
  return -gradient * (rows / rows.mean()).rsqrt() * columns.rsqrt();
}

PROBE(AdafactorOptions, factored) {
  AdafactorOptions options = plain_adafactor();
  options.factored = true;
  EXPECT_TRUE(is_close(adafactor_step(options), factored_by_hand(kMatrix)));
  EXPECT_FALSE(at::allclose(factored_by_hand(kMatrix), -at::ones_like(kMatrix)));
}

PROBE(AdafactorOptions, min_dim_size_to_factor) {
  AdafactorOptions options = plain_adafactor();
  options.factored = true;
  options.min_dim_size_to_factor = 3;  // the matrix has two rows
  EXPECT_TRUE(is_close(adafactor_step(options), -at::ones_like(kMatrix)));
}

// In the second step the moment is decay g² + (1 - decay) (2 g)², and the update 2 g over its root.
double second_step(double decay) { return 2 / std::sqrt(decay + 4 * (1 - decay)); }

PROBE(AdafactorOptions, decay_rate) {
  AdafactorOptions options = plain_adafactor();
  options.decay_rate = 0.3;
  const double expected = -1 - second_step(1 - std::pow(2, -0.3));
  EXPECT_TRUE(is_close(adafactor_step(options, 2), expected * at::ones_like(kMatrix)));
  EXPECT_GT(std::abs(expected + 1 + second_step(1 - std::pow(2, -0.8))), 1e-2);
}

PROBE(AdafactorOptions, decay_offset) {
  AdafactorOptions options = plain_adafactor();
  options.decay_offset = -1;  // as if a step had been before: the first moment is not the square alone
  const double decay = 1 - std::pow(2, -0.8);
  EXPECT_TRUE(is_close(adafactor_step(options), -std::pow(1 - decay, -0.5) * at::ones_like(kMatrix)));
}

PROBE(AdafactorOptions, multiply_by_parameter_scale) {
  AdafactorOptions options = plain_adafactor();
  options.multiply_by_parameter_scale = true;
  EXPECT_TRUE(is_close(adafactor_step(options), -kMatrix.square().mean().sqrt() * at::ones_like(kMatrix)));
}

PROBE(AdafactorOptions, clipping_threshold) {
  AdafactorOptions options = plain_adafactor();
  options.clipping_threshold = 0.5;
  EXPECT_TRUE(is_close(adafactor_step(options), -0.5 * at::ones_like(kMatrix)));
}

PROBE(AdafactorOptions, momentum) {
  AdafactorOptions options = plain_adafactor();
  options.momentum = 0.75;
  EXPECT_TRUE(is_close(adafactor_step(options), -0.25 * at::ones_like(kMatrix)));
}

PROBE(AdafactorOptions, dtype_momentum) {
  EXPECT_EQ(moment_dtype(adafactor({.momentum = 0.9, .dtype_momentum = at::kBFloat16}), "ema"), at::kBFloat16);
  EXPECT_EQ(moment_dtype(adafactor({.momentum = 0.9}), "ema"), at::kFloat);
}

PROBE(AdafactorOptions, weight_decay_rate) {
  AdafactorOptions options = plain_adafactor();
  options.weight_decay_rate = 0.25;
  EXPECT_TRUE(is_close(adafactor_step(options), -1 - 0.25 * kMatrix));
}

PROBE(AdafactorOptions, eps) {
  AdafactorOptions options = plain_adafactor();
  options.eps = 10;
  EXPECT_TRUE(is_close(adafactor_step(options), -kMatrix * (kMatrix.square() + 10).rsqrt()));
}

PROBE(AdafactorOptions, weight_decay_mask) {
  AdafactorOptions options = plain_adafactor();
  options.weight_decay_rate = 0.25;
  options.weight_decay_mask = matching("a");
  const auto [a, b] = decayed(adafactor(options));
  EXPECT_NEAR(a, b - 0.25, 1e-12);
}

// muon ---------------------------------------------------------------------------------------------------------------

// With these coefficients a Newton-Schulz step changes nothing, so that a matrix's update is its momentum over its
// norm.
MuonOptions plain_muon() {
  return {.learning_rate = 1.0, .ns_coeffs = {{1, 0, 0}}, .ns_steps = 1, .beta = 0.5, .eps = 0, .nesterov = false};
}

const at::Tensor kDiagonal = at::diag(at::tensor({4.0, 3.0}, at::kDouble));  // of Frobenius norm 5 and spectral norm 4

at::Tensor muon_step(const MuonOptions& options, const at::Tensor& gradient = kDiagonal, int steps = 1) {
  const auto tx = muon(options);
  TensorMap params{{"w", at::ones_like(gradient)}};
  OptState state = tx->init(params);
  for (int i = 0; i < steps; ++i) {
    TensorMap gradients{{"w", i == 0 ? gradient.clone() : at::ones_like(gradient)}};
    tx->apply(params, gradients, state);
  }
  return params.at("w") - 1;
}

PROBE(MuonOptions, learning_rate) {
  MuonOptions options = plain_muon();
  EXPECT_TRUE(is_close(muon_step(options), -kDiagonal / 5));
  options.learning_rate = 0.25;
  EXPECT_TRUE(is_close(muon_step(options), -kDiagonal / 20));
}

PROBE(MuonOptions, ns_coeffs) {
  MuonOptions options = plain_muon();
  options.ns_coeffs = {{1, 1, 0}};  // x + (x xᵀ) x
  const at::Tensor x = kDiagonal / 5;
  EXPECT_TRUE(is_close(muon_step(options), -(x + x.pow(3))));
}

PROBE(MuonOptions, ns_steps) {
  MuonOptions options = plain_muon();
  options.ns_coeffs = {{2, 0, 0}};
  options.ns_steps = 3;
  EXPECT_TRUE(is_close(muon_step(options), -8 * kDiagonal / 5));
}

PROBE(MuonOptions, beta) {
  MuonOptions options = plain_muon();
  options.beta = 0.75;
  const at::Tensor mean = (0.75 * 0.25 * kDiagonal + 0.25) / (1 - 0.75 * 0.75);
  EXPECT_TRUE(is_close(muon_step(options, kDiagonal, 2), -(kDiagonal / 5 + mean / mean.norm())));
}

PROBE(MuonOptions, eps) {
  MuonOptions options = plain_muon();
  options.eps = 5;
  EXPECT_TRUE(is_close(muon_step(options), -kDiagonal / 10));
}

PROBE(MuonOptions, weight_decay) {
  MuonOptions options = plain_muon();
  options.weight_decay = 0.25;
  EXPECT_TRUE(is_close(muon_step(options), -(kDiagonal / 5 + 0.25)));
}

PROBE(MuonOptions, weight_decay_mask) {
  MuonOptions options = plain_muon();
  options.weight_decay = 0.25;
  options.weight_decay_mask = matching("a");
  const auto [a, b] = decayed(muon(options), {2, 2});
  EXPECT_NEAR(a, b - 0.25, 1e-12);
}

PROBE(MuonOptions, mu_dtype) {
  MuonOptions options = plain_muon();
  EXPECT_EQ(moment_dtype(muon(options), "mu"), at::kFloat);
  options.mu_dtype = at::kBFloat16;
  EXPECT_EQ(moment_dtype(muon(options), "mu"), at::kBFloat16);
}

PROBE(MuonOptions, nesterov) {
  MuonOptions options = plain_muon();
  options.nesterov = true;
  const at::Tensor mu = 0.5 * 0.5 * kDiagonal + 0.5;
  const at::Tensor ahead = 0.5 * mu / (1 - std::pow(0.5, 3)) + 0.5 / (1 - 0.5 * 0.5);
  EXPECT_TRUE(is_close(muon_step(options, kDiagonal, 2), -(kDiagonal / 5 + ahead / ahead.norm())));
  EXPECT_FALSE(at::allclose(muon_step(options, kDiagonal, 2), muon_step(plain_muon(), kDiagonal, 2)));
}

// The update times its product with the momentum: Σ m m / ‖m‖ = ‖m‖.
PROBE(MuonOptions, adaptive) {
  MuonOptions options = plain_muon();
  options.adaptive = true;
  EXPECT_TRUE(is_close(muon_step(options), -kDiagonal));
}

PROBE(MuonOptions, preconditioning) {
  MuonOptions options = plain_muon();
  options.preconditioning = "spectral";
  EXPECT_TRUE(is_close(muon_step(options), -kDiagonal / 4));
  options.preconditioning = "none at all";
  EXPECT_TRUE(is_refused("preconditioning", [&] { muon(options); }));
}

// What is no matrix goes to adam.
Numbers muon_on_a_vector(const MuonOptions& options) { return run(muon(options)).values; }

PROBE(MuonOptions, adam_b1) {
  MuonOptions options = plain_muon();
  options.adam_b1 = 0.5;
  EXPECT_THAT(muon_on_a_vector(options),
              Pointwise(DoubleNear(1e-9), adam_by_hand({.learning_rate = 1.0, .b1 = 0.5, .eps = 0})));
}
PROBE(MuonOptions, adam_b2) {
  MuonOptions options = plain_muon();
  options.adam_b2 = 0.5;
  EXPECT_THAT(muon_on_a_vector(options),
              Pointwise(DoubleNear(1e-9), adam_by_hand({.learning_rate = 1.0, .b2 = 0.5, .eps = 0})));
}
PROBE(MuonOptions, adam_eps_root) {
  MuonOptions options = plain_muon();
  options.adam_eps_root = 0.5;
  EXPECT_THAT(muon_on_a_vector(options),
              Pointwise(DoubleNear(1e-9), adam_by_hand({.learning_rate = 1.0, .eps = 0, .eps_root = 0.5})));
}
PROBE(MuonOptions, adam_weight_decay) {
  MuonOptions options = plain_muon();
  options.adam_weight_decay = 0.5;
  EXPECT_THAT(muon_on_a_vector(options),
              Pointwise(DoubleNear(1e-9), adamw_by_hand({.learning_rate = 1.0, .eps = 0, .weight_decay = 0.5})));
}
PROBE(MuonOptions, adam_learning_rate) {
  MuonOptions options = plain_muon();
  options.adam_learning_rate = 0.125;
  EXPECT_THAT(muon_on_a_vector(options), Pointwise(DoubleNear(1e-9), adam_by_hand({.learning_rate = 0.125, .eps = 0})));
}

const at::Tensor kTall = at::tensor({3.0, 4.0}, at::kDouble).view({2, 1});

PROBE(MuonOptions, consistent_rms) {
  MuonOptions options = plain_muon();
  options.consistent_rms = 0.2;
  EXPECT_TRUE(is_close(muon_step(options, kTall), -0.2 * std::sqrt(2) * kTall / 5));
}

// Two inputs and one output, or the other way round.
PROBE(MuonOptions, reduction_axis) {
  MuonOptions options = plain_muon();
  EXPECT_TRUE(is_close(muon_step(options, kTall), -kTall / 5));
  options.reduction_axis = 1;
  EXPECT_TRUE(is_close(muon_step(options, kTall), -std::sqrt(2) * kTall / 5));
  options.reduction_axis = 2;
  EXPECT_TRUE(is_refused("reduction_axis", [&] { muon(options); }));
}

PROBE(MuonOptions, matrices) {
  MuonOptions options = plain_muon();
  options.matrices = matching("another");  // so that adam has this one
  EXPECT_TRUE(is_close(muon_step(options, at::full({2, 2}, 3.0, at::kDouble)), -at::ones({2, 2}, at::kDouble)));
}

// Pieces and wrappers ------------------------------------------------------------------------------------------------

PROBE(TraceOptions, decay) {
  EXPECT_THAT(run(trace({.decay = 0.5})).values,
              Pointwise(DoubleNear(1e-12), Numbers{1.5 + 0.5, 2.0 + 0.0, 2.0 + 2.0}));
}
PROBE(TraceOptions, nesterov) {
  EXPECT_THAT(run(trace({.decay = 0.5, .nesterov = true})).values,
              Pointwise(DoubleNear(1e-12), Numbers{1.5 + 0.75, 2.25 - 0.25, 2.0 + 3.0}));
}
PROBE(TraceOptions, accumulator_dtype) {
  EXPECT_EQ(moment_dtype(trace({.accumulator_dtype = at::kBFloat16}), "trace"), at::kBFloat16);
}

PROBE(EmaOptions, decay) {
  EXPECT_THAT(run(ema({.decay = 0.5, .debias = false})).values,
              Pointwise(DoubleNear(1e-12), Numbers{1.5 + 0.25, 1.75 + 0.0, 1.75 + 1.0}));
}
PROBE(EmaOptions, debias) {
  EXPECT_THAT(run(ema({.decay = 0.5})).values,
              Pointwise(DoubleNear(1e-12), Numbers{1.5 + 0.5, 2.0 + 0.0, 2.0 + 1.0 / 0.875}));
}
PROBE(EmaOptions, accumulator_dtype) {
  EXPECT_EQ(moment_dtype(ema({.accumulator_dtype = at::kBFloat16}), "ema"), at::kBFloat16);
}

PROBE(MultiStepsOptions, every_k) {
  EXPECT_THAT(run(MultiSteps(sgd(1.0), {.every_k = 3})).values,
              Pointwise(DoubleNear(1e-12), Numbers{1.5, 1.5, 1.5 - 2.25 / 3}));
}
PROBE(MultiStepsOptions, use_grad_mean) {
  EXPECT_THAT(run(MultiSteps(sgd(1.0), {.every_k = 3, .use_grad_mean = false})).values,
              Pointwise(DoubleNear(1e-12), Numbers{1.5, 1.5, 1.5 - 2.25}));
}
PROBE(MultiStepsOptions, accumulator_dtype) {
  const auto dtype = [](const MultiStepsOptions& options) {
    TensorMap params{{"w", at::ones({1}, at::kBFloat16)}};
    OptState state = MultiSteps(sgd(1.0), options)->init(params);
    return state.leaves().at(0).leaf->value.scalar_type();
  };
  EXPECT_EQ(dtype({.every_k = 2}), at::kFloat);
  EXPECT_EQ(dtype({.every_k = 2, .accumulator_dtype = at::kBFloat16}), at::kBFloat16);
}

PROBE(ParamsEmaOptions, decay) {
  ParamsEma average({.decay = 0.75});
  average.init({{"w", at::zeros({1})}});
  average.update({{"w", at::ones({1})}});
  EXPECT_EQ(average.params().at("w").item<double>(), 0.25);
}
PROBE(ParamsEmaOptions, dtype) {
  ParamsEma average({.dtype = at::kDouble});
  average.init({{"w", at::zeros({1})}});
  EXPECT_EQ(average.params().at("w").scalar_type(), at::kDouble);
}

// What a config file asks for ----------------------------------------------------------------------------------------

Numbers rates(const OptimizerConfig& config, std::initializer_list<int64_t> steps) {
  Numbers values;
  for (const int64_t step : steps) values.push_back(make_schedule(config)(step));
  return values;
}

Numbers made(const OptimizerConfig& config) { return run(make_optimizer(config).tx).values; }

PROBE(OptimizerConfig, optimizer) {
  EXPECT_THAT(made({.optimizer = "sgd", .learning_rate = 0.1, .weight_decay = 0}),
              Pointwise(DoubleNear(1e-9), sgd_by_hand({.learning_rate = 0.1})));
  EXPECT_TRUE(is_refused("unknown optimizer", [] { make_optimizer({.optimizer = "none"}); }));
}
PROBE(OptimizerConfig, scheduler) {
  EXPECT_THAT(rates({.scheduler = "cosine", .learning_rate = 1, .total_steps = 10}, {0, 5, 10}),
              Pointwise(DoubleNear(1e-12), Numbers{1, 0.5, 0}));
  EXPECT_TRUE(is_refused("unknown scheduler", [] { make_optimizer({.scheduler = "sine"}); }));
}
PROBE(OptimizerConfig, learning_rate) { EXPECT_EQ(rates({.learning_rate = 0.25}, {7}), Numbers{0.25}); }
PROBE(OptimizerConfig, learning_rate_end) {
  EXPECT_THAT(rates({.scheduler = "linear", .learning_rate = 1, .learning_rate_end = 0.5, .total_steps = 10}, {5, 10}),
              Pointwise(DoubleNear(1e-12), Numbers{0.75, 0.5}));
}
PROBE(OptimizerConfig, warmup_steps) {
  EXPECT_THAT(rates({.scheduler = "constant", .learning_rate = 1, .warmup_steps = 4}, {2, 4, 9}),
              Pointwise(DoubleNear(1e-7), Numbers{0.5, 1, 1}));
}
PROBE(OptimizerConfig, total_steps) {
  EXPECT_THAT(rates({.scheduler = "cosine", .learning_rate = 1, .total_steps = 20}, {10, 20}),
              Pointwise(DoubleNear(1e-12), Numbers{0.5, 0}));
}
PROBE(OptimizerConfig, decay_steps) {
  OptimizerConfig config{.scheduler = "warmup_stable_decay", .learning_rate = 1, .total_steps = 10};
  EXPECT_THAT(rates(config, {5, 9}), Pointwise(DoubleNear(1e-12), Numbers{1, 0.5}));
  config.decay_steps = 10;
  EXPECT_THAT(rates(config, {5, 9}), Pointwise(DoubleNear(1e-12), Numbers{0.5, 0.1}));
}
PROBE(OptimizerConfig, weight_decay) {
  EXPECT_THAT(made({.learning_rate = 0.1, .weight_decay = 0.5}),
              Pointwise(DoubleNear(1e-9), adamw_by_hand({.learning_rate = 0.1, .weight_decay = 0.5})));
}
PROBE(OptimizerConfig, weight_decay_mask) {
  for (const std::string& name : optimizer_names()) {
    const auto [a, b] =
        decayed(make_optimizer(
                    {.optimizer = name, .learning_rate = 0.1, .weight_decay = 0.5, .weight_decay_mask = matching("a")})
                    .tx);
    EXPECT_NEAR(a, b - 0.1 * 0.5, 1e-9) << name;
  }
}
PROBE(OptimizerConfig, clip_grad) {
  EXPECT_THAT(made({.optimizer = "sgd", .learning_rate = 1, .weight_decay = 0, .clip_grad = 0.125}),
              Pointwise(DoubleNear(1e-6), Numbers{1.5 - 0.125, 1.5, 1.5 - 0.125}));
}
PROBE(OptimizerConfig, gradient_accumulation_steps) {
  EXPECT_THAT(made({.optimizer = "sgd", .learning_rate = 1, .weight_decay = 0, .gradient_accumulation_steps = 3}),
              Pointwise(DoubleNear(1e-6), Numbers{1.5, 1.5, 1.5 - 0.75}));
}
PROBE(OptimizerConfig, extra_optimizer_kwargs) {
  EXPECT_THAT(made({.learning_rate = 0.1,
                    .weight_decay = 0,
                    .extra_optimizer_kwargs = Json::object({{"b1", 0.5}, {"nesterov", true}})}),
              Pointwise(DoubleNear(1e-9), adam_by_hand({.learning_rate = 0.1, .b1 = 0.5, .nesterov = true})));
  EXPECT_TRUE(is_refused("\"momentum\"",
                         [] { make_optimizer({.extra_optimizer_kwargs = Json::object({{"momentum", 0.5}})}); }));
}

}  // namespace
}  // namespace easydel::optim
