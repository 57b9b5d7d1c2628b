#include "easydel/optim/make_optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/wrappers.h"
#include "tests/support/tensors.h"

namespace easydel::optim {
namespace {

using testing::ThrowsMessage;

// Five steps of both from the same parameters.
void expect_same_steps(const GradientTransformation& a, const GradientTransformation& b) {
  at::manual_seed(5);
  const at::Tensor weight = at::randn({6, 4}), bias = at::randn({4});
  TensorMap x{{"weight", weight.clone()}, {"bias", bias.clone()}},
      y{{"weight", weight.clone()}, {"bias", bias.clone()}};
  OptState of_a = a->init(x), of_b = b->init(y);
  for (int step = 0; step < 5; ++step) {
    const at::Tensor for_weight = at::randn({6, 4}), for_bias = at::randn({4});
    TensorMap for_x{{"weight", for_weight.clone()}, {"bias", for_bias.clone()}};
    TensorMap for_y{{"weight", for_weight.clone()}, {"bias", for_bias.clone()}};
    a->apply(x, for_x, of_a);
    b->apply(y, for_y, of_b);
  }
  for (const auto& [path, param] : x) EXPECT_TRUE(is_close(param, y.at(path), {.rtol = 1e-6, .atol = 1e-7})) << path;
  EXPECT_FALSE(at::equal(x.at("weight"), weight));
}

TEST(MakeOptimizer, FollowsTheConfig) {
  const Mask weights = matching("weight");
  const Optimizer made = make_optimizer({.optimizer = "adamw",
                                         .scheduler = "cosine",
                                         .learning_rate = 1e-2,
                                         .learning_rate_end = 1e-3,
                                         .warmup_steps = 2,
                                         .total_steps = 10,
                                         .weight_decay = 0.1,
                                         .weight_decay_mask = weights,
                                         .clip_grad = 0.5,
                                         .gradient_accumulation_steps = 2,
                                         .extra_optimizer_kwargs = Json::parse(R"({"b1": 0.8, "b2": 0.95})")});
  const Schedule rate = warmup_cosine_decay_schedule(
      {.init_value = 1e-8, .peak_value = 1e-2, .warmup_steps = 2, .decay_steps = 10, .end_value = 1e-3});
  for (int64_t step = 0; step < 12; ++step) EXPECT_DOUBLE_EQ(made.schedule(step), rate(step));
  expect_same_steps(
      made.tx,
      MultiSteps(chain({clip_by_global_norm(0.5),
                        adamw({.learning_rate = rate, .b1 = 0.8, .b2 = 0.95, .weight_decay = 0.1, .mask = weights})}),
                 2));
}

// Decay is added after the optimizer, times the learning rate.
TEST(MakeOptimizer, DecaysWithEveryOptimizer) {
  const auto with_decay = [](GradientTransformation tx) { return chain({std::move(tx), add_decayed_weights(-1e-3)}); };
  const std::map<std::string, GradientTransformation> expected{
      {"adafactor", with_decay(adafactor(1e-2))},
      {"adam", with_decay(adam(1e-2))},
      {"adamw", with_decay(adam(1e-2))},
      {"adamw_8bit", with_decay(adam(1e-2))},
      {"lion", with_decay(lion({.learning_rate = 1e-2, .weight_decay = 0}))},
      {"muon", with_decay(muon({.learning_rate = 1e-2, .reduction_axis = 1}))},
      {"rmsprop", with_decay(rmsprop(1e-2))},
      {"sgd", with_decay(sgd(1e-2))}};
  ASSERT_EQ(optimizer_names().size(), expected.size());
  for (const std::string& name : optimizer_names()) {
    SCOPED_TRACE(name);
    expect_same_steps(make_optimizer({.optimizer = name, .learning_rate = 1e-2, .weight_decay = 0.1}).tx,
                      expected.at(name));
  }
}

TEST(MakeOptimizer, ReadsEveryKindOfOption) {
  const auto made = [](const char* name, const char* options) {
    return make_optimizer({.optimizer = name,
                           .learning_rate = 1e-2,
                           .weight_decay = 0,
                           .extra_optimizer_kwargs = Json::parse(options)})
        .tx;
  };
  expect_same_steps(made("sgd", R"({"momentum": 0.9, "nesterov": true, "accumulator_dtype": "float64"})"),
                    sgd({.learning_rate = 1e-2, .momentum = 0.9, .nesterov = true, .accumulator_dtype = at::kDouble}));
  expect_same_steps(
      made("adamw_8bit", R"({"b1": 0.8, "b2": 0.9, "eps": 1e-3, "min_8bit_size": 2, "full_precision": "a"})"),
      adamw_8bit({.learning_rate = 1e-2,
                  .b1 = 0.8,
                  .b2 = 0.9,
                  .eps = 1e-3,
                  .weight_decay = 0,
                  .min_8bit_size = 2,
                  .full_precision = matching("a")}));
  expect_same_steps(made("adafactor", R"({"clipping_threshold": null, "min_dim_size_to_factor": 2})"),
                    adafactor({.learning_rate = 1e-2, .min_dim_size_to_factor = 2, .clipping_threshold = {}}));
  expect_same_steps(
      made("muon", R"({"ns_coeffs": [[2, -1.5, 0.5], [2, -1.5, 0.5]], "ns_steps": 2})"),
      muon({.learning_rate = 1e-2, .ns_coeffs = {{2, -1.5, 0.5}, {2, -1.5, 0.5}}, .ns_steps = 2, .reduction_axis = 1}));
}

TEST(MakeOptimizer, KeepsMomentsOfEmbeddingsInFloat32) {
  const TensorMap params{{"model.embed_tokens.weight", at::zeros({64, 64})}, {"lm_head.weight", at::zeros({64, 64})}};
  const auto dtype = [&](const char* options, const char* path) {
    const auto tx = make_optimizer({.optimizer = "adamw_8bit", .extra_optimizer_kwargs = Json::parse(options)}).tx;
    return tx->init(params).trees.at("mu").at(path).value.scalar_type();
  };
  EXPECT_EQ(dtype("{}", "model.embed_tokens.weight"), at::kFloat);
  EXPECT_EQ(dtype("{}", "lm_head.weight"), at::kByte);
  EXPECT_EQ(dtype(R"({"full_precision": ""})", "model.embed_tokens.weight"), at::kByte);
}

TEST(MakeSchedule, AcceptsItsNames) {
  for (const std::string& name : scheduler_names()) {
    const Schedule rate = make_schedule({.scheduler = name,
                                         .learning_rate = 1e-2,
                                         .learning_rate_end = 1e-3,
                                         .warmup_steps = name == "none" ? 0 : 4,
                                         .total_steps = 20});
    EXPECT_NEAR(rate(0), name == "none" ? 1e-2 : 1e-8, 1e-15) << name;
    EXPECT_DOUBLE_EQ(rate(4), 1e-2) << name;
    EXPECT_NEAR(rate(20), name == "none" || name == "constant" ? 1e-2 : 1e-3, 1e-12) << name;
    const Schedule at_once =
        make_schedule({.scheduler = name, .learning_rate = 1e-2, .learning_rate_end = 1e-3, .total_steps = 20});
    EXPECT_DOUBLE_EQ(at_once(0), 1e-2) << name;
  }
}

TEST(MakeOptimizer, RejectsUnknownNames) {
  const auto message = [](const OptimizerConfig& config) -> std::string {
    try {
      make_optimizer(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing";
  };
  const auto with = [](const char* options) { return OptimizerConfig{.extra_optimizer_kwargs = Json::parse(options)}; };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::string known = "known: adafactor, adam, adamw, adamw_8bit, lion, muon, rmsprop, sgd.";
  EXPECT_EQ(message({.optimizer = "white_kron"}), "[make_optimizer] unknown optimizer \"white_kron\"; " + known);
  EXPECT_EQ(message({.optimizer = "lyon"}),
            "[make_optimizer] unknown optimizer \"lyon\"; " + known + " Did you mean \"lion\"?");
  EXPECT_EQ(message({.scheduler = "cosin", .total_steps = 9}),
            "[make_optimizer] unknown scheduler \"cosin\"; known: constant, cosine, exponential, linear, none, "
            "warmup_stable_decay. Did you mean \"cosine\"?");
  EXPECT_EQ(message({.learning_rate = kNan}),
            "[make_optimizer] learning_rate must be finite and not negative; got nan.");
  EXPECT_EQ(message({.learning_rate = -1}), "[make_optimizer] learning_rate must be finite and not negative; got -1.");
  EXPECT_EQ(message({.scheduler = "linear", .total_steps = 9}),
            "[make_optimizer] the scheduler \"linear\" needs learning_rate_end.");
  EXPECT_EQ(message({.scheduler = "cosine", .warmup_steps = 9, .total_steps = 9}),
            "[make_optimizer] total_steps must be more than warmup_steps; got 9 and 9.");
  EXPECT_EQ(message({.warmup_steps = 9}),
            "[make_optimizer] warmup_steps needs a scheduler; got 9 steps and \"none\". \"constant\" stays at the "
            "learning rate after the warmup.");
  EXPECT_EQ(message({.weight_decay = -0.5}),
            "[make_optimizer] weight_decay must be finite and not negative; got -0.5.");
  EXPECT_EQ(message({.clip_grad = 0}), "[make_optimizer] clip_grad must be finite and positive; got 0.");
  EXPECT_EQ(message({.gradient_accumulation_steps = 0}),
            "[make_optimizer] gradient_accumulation_steps must be at least 1; got 0.");
  EXPECT_EQ(message(with("[1]")), "[make_optimizer] extra_optimizer_kwargs must be an object; got an array.");
  EXPECT_EQ(message(with(R"({"beta1": 0.9})")),
            "[make_optimizer] unknown option of adamw \"beta1\"; known: b1, b2, eps, eps_root, mu_dtype, nesterov.");
  EXPECT_EQ(message(with(R"({"b1": 1.5})")), "[adamw] b1 must be in [0, 1); got 1.5.");
  EXPECT_EQ(message(with(R"({"b1": "x"})")),
            "[make_optimizer] extra_optimizer_kwargs.b1 must be a finite number; got \"x\".");
  EXPECT_EQ(message(with(R"({"b1": NaN})")),
            "[make_optimizer] extra_optimizer_kwargs.b1 must be a finite number; got NaN.");
  EXPECT_EQ(message(with(R"({"mu_dtype": "int8"})")),
            "[make_optimizer] extra_optimizer_kwargs.mu_dtype must be bfloat16, float16, float32 or float64; got "
            "\"int8\".");
}

}  // namespace
}  // namespace easydel::optim
