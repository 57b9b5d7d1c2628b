// Every optimizer against optax over a hundred steps, with the same parameters and gradients.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <set>

#include "easydel/io/safetensors/safetensors.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/wrappers.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::optim {
namespace {

constexpr int64_t kParitySteps = 100;

Schedule cosine() {
  return warmup_cosine_decay_schedule(
      {.init_value = 0, .peak_value = 5e-3, .warmup_steps = 10, .decay_steps = 80, .end_value = 1e-3});
}

// By the names in optim_peer.py.
std::map<std::string, GradientTransformation> cases(at::ScalarType dtype) {
  const Mask weights = matching("weight$");
  return {
      {"adamw", adamw(2e-3)},
      {"adamw_options", adamw({.learning_rate = 3e-3, .b1 = 0.8, .b2 = 0.95, .eps = 1e-6, .weight_decay = 0.1})},
      {"adamw_mask", adamw({.learning_rate = 2e-3, .weight_decay = 0.1, .mask = weights})},
      {"adamw_nesterov", adamw({.learning_rate = 2e-3, .weight_decay = 0.01, .nesterov = true})},
      {"adamw_eps_root", adamw({.learning_rate = 2e-3, .eps_root = 1e-6})},
      {"adamw_schedule", adamw(cosine())},
      {"adam", adam(2e-3)},
      {"scale_by_adam", chain({scale_by_adam(), scale(-2e-3)})},
      {"sgd", sgd(1e-2)},
      {"sgd_momentum", sgd({.learning_rate = 1e-3, .momentum = 0.9})},
      {"sgd_nesterov", sgd({.learning_rate = cosine(), .momentum = 0.8, .nesterov = true})},
      {"lion", lion(1e-3)},
      {"lion_mask", lion({.learning_rate = cosine(), .b1 = 0.95, .b2 = 0.98, .weight_decay = 0.1, .mask = weights})},
      {"rmsprop", rmsprop(1e-3)},
      {"rmsprop_kinds",
       multi_transform(
           {{"^a\\.",
             rmsprop({.learning_rate = 1e-3, .decay = 0.8, .initial_scale = 0.5, .momentum = 0.9, .nesterov = true})},
            {"^b\\.",
             rmsprop(
                 {.learning_rate = 1e-3, .eps = 1e-4, .initial_scale = 1.0, .eps_in_sqrt = false, .centered = true})},
            {".*", rmsprop({.learning_rate = 1e-3, .eps_in_sqrt = false, .bias_correction = true})}})},
      {"adafactor", adafactor(1e-2)},
      {"adafactor_small", adafactor({.learning_rate = cosine(), .min_dim_size_to_factor = 2})},
      {"adafactor_options", adafactor({.learning_rate = 1e-2,
                                       .min_dim_size_to_factor = 4,
                                       .decay_rate = 0.7,
                                       .multiply_by_parameter_scale = false,
                                       .clipping_threshold = 0.5,
                                       .momentum = 0.9,
                                       .dtype_momentum = dtype,
                                       .weight_decay_rate = 1e-3,
                                       .weight_decay_mask = weights})},
      {"adafactor_plain", adafactor({.learning_rate = 1e-2, .clipping_threshold = {}, .factored = false})},
      {"adafactor_without_a_rate", chain({adafactor({.min_dim_size_to_factor = 2}), scale(1e-2)})},
      {"muon", muon(2e-3)},
      {"muon_options", muon({.learning_rate = cosine(),
                             .ns_coeffs = {{4.0848, -6.8946, 2.9270},
                                           {3.9505, -6.3029, 2.6377},
                                           {3.7418, -5.5913, 2.3037},
                                           {2.8769, -3.1427, 1.2046},
                                           {2.8366, -3.0525, 1.2012}},
                             .beta = 0.9,
                             .weight_decay = 0.1,
                             .weight_decay_mask = weights,
                             .nesterov = false,
                             .adam_b1 = 0.8,
                             .adam_b2 = 0.95,
                             .adam_weight_decay = 0.05,
                             .consistent_rms = 0.2})},
      {"muon_kinds", multi_transform({{"^a\\.", muon({.learning_rate = 2e-3, .ns_steps = 4, .preconditioning = "aol"})},
                                      {"^b\\.", muon({.learning_rate = 2e-3, .preconditioning = "schatten"})},
                                      {".*", muon({.learning_rate = 2e-3, .preconditioning = "spectral"})}})},
      {"muon_adaptive", muon({.learning_rate = 1e-3, .adaptive = true})},
      {"clip", chain({clip(0.3), sgd(1e-2)})},
      {"clip_by_global_norm", chain({clip_by_global_norm(0.5), sgd(1e-2)})},
      {"clip_by_a_norm_that_is_not_reached", chain({clip_by_global_norm(1e6), sgd(1e-2)})},
      {"clip_by_block_rms", chain({clip_by_block_rms(0.7), sgd(1e-2)})},
      {"clip_adamw", chain({clip_by_global_norm(1.0), adamw({.learning_rate = 2e-3, .weight_decay = 0.01})})},
      {"pieces",
       chain({trace({.decay = 0.9, .nesterov = true}), ema({.decay = 0.8}), add_decayed_weights(0.01, weights),
              scale_by_param_block_rms(), scale_by_schedule(cosine()), scale(-1)})},
      {"masked", chain({masked(adamw(2e-3), "weight$"), scale(1e-2)})},
      {"multi_transform",
       multi_transform({{"^a\\.", adamw(2e-3)},
                        {".*", chain({clip_by_global_norm(1.0), sgd({.learning_rate = 1e-2, .momentum = 0.9})})}})},
      {"frozen", multi_transform({{"^a\\.", set_to_zero()}, {".*", lion(1e-3)}})},
      {"multi_steps", MultiSteps(chain({clip_by_global_norm(1.0), adamw(2e-3)}), 3)},
      {"multi_steps_sum",
       MultiSteps(sgd({.learning_rate = 1e-3, .momentum = 0.9}), {.every_k = 4, .use_grad_mean = false})},
      {"inject_hyperparams", inject_hyperparams(
                                 [](const Hyperparams& h) {
                                   return adamw(
                                       {.learning_rate = h.at("learning_rate"), .weight_decay = h.at("weight_decay")});
                                 },
                                 {{"learning_rate", cosine()}, {"weight_decay", 0.02}})},
      {"apply_if_finite", apply_if_finite(adamw(2e-3), 2)},
  };
}

class OptimParity : public testing::Test {
 protected:
  void load(const char* dtype, const std::vector<std::string>& names) {
    std::vector<std::string> arguments{"run", directory_.path().string(), dtype, std::to_string(kParitySteps)};
    arguments.insert(arguments.end(), names.begin(), names.end());
    run_python("optim_peer.py", arguments);
    file_ = SafetensorsFile::open(directory_ / "optim.safetensors");
    for (const std::string& name : file_->names()) {
      if (name.starts_with("params/")) paths_.push_back(name.substr(7));
      const std::string kind = name.substr(0, name.find('/'));
      if (kind != "params" && kind != "gradients" && kind != "bad") names_.insert(kind);
    }
  }
  TensorMap tree(const std::string& prefix) const {
    TensorMap map;
    for (const std::string& path : paths_) map.set(path, file_->tensor(prefix + "/" + path).clone());
    return map;
  }

  // The largest difference at any recorded step, relative to the largest element of the parameter up to then.
  double worst(const std::string& name, const GradientTransformation& tx, bool applies) {
    TensorMap params = tree("params");
    for (const auto& [path, param] : params) param.requires_grad_();
    std::map<std::string, double> sizes;
    for (const auto& [path, param] : params) sizes[path] = param.abs().max().item<double>();
    OptState state = tx->init(params);
    double worst = 0;
    for (int64_t step = 0; step < kParitySteps; ++step) {
      TensorMap gradients = tree(concat(name == "apply_if_finite" ? "bad/" : "gradients/", step));
      if (applies) {
        tx->apply(params, gradients, state);
      } else {
        tx->update(gradients, state, params);
        apply_updates(params, gradients);
      }
      if (!names_at(name, step + 1)) continue;
      for (const auto& [path, expected] : tree(concat(name, "/", step + 1))) {
        const at::Tensor a = params.at(path).detach().to(at::kDouble), b = expected.to(at::kDouble);
        sizes[path] = std::max(sizes[path], b.abs().max().item<double>());
        const double difference = (a - b).abs().max().item<double>() / sizes[path];
        worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
      }
      ++compared_;
    }
    return worst;
  }
  bool names_at(const std::string& name, int64_t step) const {
    return file_->contains(concat(name, "/", step, "/", paths_[0]));
  }

  void expect_equal(const char* name_of_dtype, at::ScalarType dtype, double tolerance,
                    const std::vector<std::string>& names = {}) {
    load(name_of_dtype, names);
    const auto ours = cases(dtype);
    ASSERT_EQ(names_.size(), names.empty() ? ours.size() : names.size());
    for (const std::string& name : names_) {
      ASSERT_TRUE(ours.contains(name)) << name;
      const double updated = worst(name, ours.at(name), false), applied = worst(name, ours.at(name), true);
      if (worst_ < std::max(updated, applied)) {
        worst_ = std::max(updated, applied);
        worst_name_ = name;
      }
      EXPECT_LE(updated, tolerance) << name;
      EXPECT_LE(applied, tolerance) << name << ", fused";
    }
    std::cout << names_.size() << " optimizers, " << kParitySteps << " steps; the largest difference is " << worst_
              << " of the parameter, with " << worst_name_ << "\n";
    EXPECT_EQ(compared_, static_cast<int64_t>(names_.size()) * 2 * 6);
  }

  TemporaryDirectory directory_;
  std::shared_ptr<const SafetensorsFile> file_;
  std::vector<std::string> paths_;
  std::set<std::string> names_;
  int64_t compared_ = 0;
  double worst_ = 0;
  std::string worst_name_;
};

TEST_F(OptimParity, EqualsOptaxInFloat32) { expect_equal("float32", at::kFloat, 1e-6); }
// EASYDEL_DRAWS runs all of them.
TEST_F(OptimParity, EqualsOptaxInFloat64) {
  const std::vector<std::string> some{"adafactor_options", "adamw_mask",   "clip_adamw",
                                      "lion_mask",         "muon_options", "pieces"};
  expect_equal("float64", at::kDouble, 1e-13, std::getenv("EASYDEL_DRAWS") ? std::vector<std::string>() : some);
}

}  // namespace
}  // namespace easydel::optim
