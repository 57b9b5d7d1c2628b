// easydel demo: fits a small network to a known function, to show that autograd and the progress bar work here.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/console.h"
#include "easydel/core/error.h"
#include "easydel/core/progress.h"
#include "easydel/core/random.h"

namespace easydel::cli {
namespace {

struct DemoOptions {
  int64_t steps = 2000;
  uint64_t seed = 0;
  bool json = false;
};

at::Tensor target(const at::Tensor& x) { return at::sin(3 * x) + 0.5 * x; }

struct Fit {
  double first_loss, last_loss, worst_error;
};

Fit fit(const DemoOptions& options) {
  constexpr int64_t kWidth = 64;
  const RandomKey key(options.seed);
  std::vector<at::Tensor> params{at::empty({kWidth, 1}), at::empty({kWidth}),    at::empty({kWidth, kWidth}),
                                 at::zeros({kWidth}),    at::empty({1, kWidth}), at::zeros({1})};
  fill_normal(params[0], key.fold("0.weight"), 0, 2);
  fill_uniform(params[1], key.fold("0.bias"), -2, 2);
  fill_normal(params[2], key.fold("1.weight"), 0, 1 / std::sqrt(double{kWidth}));
  fill_normal(params[4], key.fold("2.weight"), 0, 1 / std::sqrt(double{kWidth}));
  std::vector<at::Tensor> first, second, steps;
  for (at::Tensor& p : params) {
    p.requires_grad_(true);
    first.push_back(at::zeros_like(p));
    second.push_back(at::zeros_like(p));
    steps.push_back(at::zeros({}));
  }
  const auto network = [&](const at::Tensor& x) {
    const at::Tensor h = at::tanh(at::linear(x, params[0], params[1]));
    return at::linear(at::tanh(at::linear(h, params[2], params[3])), params[4], params[5]);
  };

  Fit result{};
  Progress progress("fitting sin(3x) + x/2", {.total = options.steps, .unit = "step"});
  for (int64_t step = 0; step < options.steps; ++step) {
    at::Tensor x = at::empty({256, 1});
    fill_uniform(x, key.fold("data").fold(static_cast<uint64_t>(step)), -2, 2);
    const at::Tensor loss = at::mse_loss(network(x), target(x));
    const std::vector<at::Tensor> grads = torch::autograd::grad({loss}, params);
    const at::NoGradGuard no_grad;
    const double rate =
        1e-2 * 0.5 * (1 + std::cos(M_PI * static_cast<double>(step) / static_cast<double>(options.steps)));
    for (at::Tensor& count : steps) count.add_(1);
    at::_fused_adamw_(params, grads, first, second, {}, steps, rate, 0.9, 0.999, 0.0, 1e-8, false, false);
    result.last_loss = loss.item<double>();
    if (step == 0) result.first_loss = result.last_loss;
    progress.advance();
    progress.set_message(concat("loss ", result.last_loss));
  }
  const at::NoGradGuard no_grad;
  const at::Tensor grid = at::linspace(-2, 2, 401).unsqueeze(1);
  result.worst_error = (network(grid) - target(grid)).abs().max().item<double>();
  return result;
}

}  // namespace

void add_demo_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "Fit a small network to a known function and check the fit");
  auto options = std::make_shared<DemoOptions>();
  command->add_option("--steps", options->steps, "Steps of training")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of weights and data")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] {
    const Fit result = fit(*options);
    if (options->json) {
      print_json(Json::object({{"steps", options->steps},
                               {"first_loss", result.first_loss},
                               {"last_loss", result.last_loss},
                               {"worst_error", result.worst_error}}));
    } else {
      std::cout << "loss " << result.first_loss << " -> " << result.last_loss << " in " << options->steps
                << " steps; largest error on [-2, 2]: " << result.worst_error << "\n";
    }
  });
}

}  // namespace easydel::cli
