// easydel bench moe: forward and backward of one mixture-of-experts block, with random weights and tokens.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "easydel/cli/bench/bench_tools.h"
#include "easydel/cli/commands.h"
#include "easydel/cli/options/device_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/layers/moe/moe.h"

namespace easydel::cli {
namespace {

struct BenchMoeOptions {
  std::string dtype, device, method = "fused_moe";
  int64_t hidden = 512, inner = 1024, experts = 8, top_k = 2, tokens = 2048, steps = 8, warmup = 2;
  bool json = false;
};

void run(const BenchMoeOptions& options) {
  const ComputeSettings compute = to_compute_settings({.device = options.device, .dtype = options.dtype});
  const at::Device device = compute.device;
  const DType dtype = compute.dtype;
  const int64_t before = used_memory(device);
  keep_freed_memory();  // as the trainer does
  SparseMoE moe(MoeSpec{.experts = {.hidden_size = options.hidden,
                                    .intermediate_size = options.inner,
                                    .num_experts = options.experts,
                                    .method = options.method},
                        .router = {.top_k = options.top_k}});
  moe.set_dtype(dtype);
  int64_t parameters = 0;
  for (const auto& [path, parameter] : moe.named_parameters()) {
    parameter->draw(RandomKey(0).fold(path), at::TensorOptions(dtype).device(device));
    parameters += parameter->value().numel();
  }
  at::Tensor x = at::empty({1, options.tokens, options.hidden}, at::TensorOptions(dtype).device(device));
  fill_normal(x, RandomKey(1), 0, 1);
  x.requires_grad_();
  // The sorted times of the steps; waits for the device only at the end of each step.
  const auto time = [&](bool backward) {
    std::vector<double> times;
    for (int64_t i = 0; i < options.warmup + options.steps; ++i) {
      wait_for(device);
      const double begin = seconds();
      const at::Tensor y = moe(x).hidden;
      if (backward) y.backward(at::ones_like(y));
      wait_for(device);
      if (i >= options.warmup) times.push_back(seconds() - begin);
      x.mutable_grad().reset();
      for (const auto& [path, parameter] : moe.named_parameters()) parameter->value().mutable_grad().reset();
    }
    std::sort(times.begin(), times.end());
    return times;
  };
  const std::vector<double> both = time(true), forward = time(false);
  const int64_t peak = peak_memory(device) - (device.is_cpu() ? before : 0);
  const double flops = 3 * moe.own_flops_per_token(0) * static_cast<double>(options.tokens);
  if (options.json) {
    return print_json(Json::object({{"parameters", parameters},
                                    {"device", device.str()},
                                    {"dtype", std::string(dtype_name(dtype))},
                                    {"method", options.method},
                                    {"tokens", options.tokens},
                                    {"steps", both.size()},
                                    {"flops", flops},
                                    {"forward_seconds", forward.front()},
                                    {"seconds", both.front()},
                                    {"median_seconds", both[both.size() / 2]},
                                    {"tflops", flops / both.front() / 1e12},
                                    {"threads", at::get_num_threads()},
                                    {"peak_bytes", peak}}));
  }
  print_table({{"forward", concat(forward.front() * 1e3, " ms")},
               {"forward and backward", concat(both.front() * 1e3, " ms (median ", both[both.size() / 2] * 1e3, ")")},
               {"compute", concat(flops / both.front() / 1e12, " TFLOP/s")}});
}

}  // namespace

void add_bench_moe_command(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("moe", "Measure forward and backward of a mixture-of-experts block with random weights");
  auto options = std::make_shared<BenchMoeOptions>();
  const auto size = [&](const char* name, int64_t& value, const char* help) {
    command->add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  size("--hidden", options->hidden, "Hidden size");
  size("--inner", options->inner, "Intermediate size of an expert");
  size("--experts", options->experts, "Number of experts");
  size("--top-k", options->top_k, "Experts per token");
  size("--tokens", options->tokens, "Number of tokens");
  size("--steps", options->steps, "Number of timed steps; the best is reported");
  command->add_option("--method", options->method, "fused_moe, standard_moe or dense_moe")
      ->check(CLI::IsMember({"fused_moe", "standard_moe", "dense_moe"}))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype,
                      "Dtype of weights and computation (default: bf16 on a GPU, fp32 on a CPU)");
  command->add_option("--device", options->device, "cpu, cuda or cuda:1 (default: a GPU if available)");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli
