// easydel bench: how fast this machine generates, with random weights of any shape.
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/console.h"
#include "easydel/core/build_info.h"
#include "easydel/core/bytes.h"
#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_config.h"
#include "easydel/infra/registry.h"

#if EASYDEL_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace easydel::cli {
namespace {

struct BenchOptions {
  std::string config, dtype = "fp32", device = "cpu";
  int64_t prompt = 128, new_tokens = 128, batch = 1, rounds = 3;
  bool trace = true;
  bool json = false;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t peak_bytes(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(device.has_index() ? device.index() : 0)
        .allocated_bytes[0]
        .peak;
  }
#endif
  (void)device;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

void wait_for(at::Device device) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#endif
  (void)device;
}

struct Round {
  double first_token = 1e30, decode = 1e30;  // seconds; decode: of the tokens after the first
};

// Without end tokens, so that every round makes as many tokens as were asked for.
Round run_round(const BaseModule& model, const at::Tensor& ids, const BenchOptions& options, at::Device device) {
  GenerateOptions given;
  given.trace = options.trace;
  given.generation_config.do_sample = false;
  const auto generate_tokens = [&](int64_t count) {
    given.generation_config.max_new_tokens = count;
    wait_for(device);
    const double begin = now();
    generate(model, ids, given);
    wait_for(device);
    return now() - begin;
  };
  if (device.is_cuda()) {  // looking at each token would wait for the device, so that two runs are compared
    const double first = generate_tokens(1);
    return {first, generate_tokens(options.new_tokens) - first};
  }
  double first = 0;
  given.streamer = [&](std::span<const int64_t>) {
    if (first == 0) first = now();
  };
  const double begin = now(), all = generate_tokens(options.new_tokens);
  return {first - begin, all - (first - begin)};
}

void run(const BenchOptions& options) {
  const at::Device device(options.device);
  const DType dtype = parse_dtype(options.dtype);
  std::unique_ptr<BaseConfig> config = AutoConfig::from_dict(Json::parse_file(options.config));
  config->eos_token_id = {};
  const double begin = now();
  const std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize({.dtype = dtype, .param_dtype = dtype, .rngs = RandomKey(0), .device = device});
  const double made = now() - begin;
  at::Tensor ids = at::empty({options.batch, options.prompt}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(
        RandomKey(0).fold(static_cast<uint64_t>(i)).fold("prompt").bits() % static_cast<uint64_t>(config->vocab_size));
  run_round(*model, ids, options, device);  // warms up libraries and clocks
  Round best;
  for (int64_t i = 0; i < options.rounds; ++i) {
    const Round round = run_round(*model, ids, options, device);
    best = {std::min(best.first_token, round.first_token), std::min(best.decode, round.decode)};
  }
  const auto batch = static_cast<double>(options.batch);
  const double prefill = batch * static_cast<double>(options.prompt) / best.first_token;
  const double decode =
      options.new_tokens > 1 ? batch * static_cast<double>(options.new_tokens - 1) / best.decode : 0.0;
  const int64_t peak = peak_bytes(device);
  if (options.json) {
    print_json(Json::object({{"parameters", model->num_params()},
                             {"device", device.str()},
                             {"dtype", std::string(dtype_name(dtype))},
                             {"threads", at::get_num_threads()},
                             {"batch", options.batch},
                             {"prompt", options.prompt},
                             {"new", options.new_tokens},
                             {"init_seconds", made},
                             {"first_token_seconds", best.first_token},
                             {"prefill_tokens_per_second", prefill},
                             {"decode_tokens_per_second", decode},
                             {"peak_bytes", peak}}));
    return;
  }
  print_table({{"parameters", group_digits(model->num_params())},
               {"first token", concat(best.first_token * 1e3, " ms")},
               {"prefill", concat(prefill, " tokens/s")},
               {"decode", concat(decode, " tokens/s")},
               {"peak memory", format_bytes(peak)}});
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  CLI::App* generate_command = command->add_subcommand("generate", "Prefill and decode with random weights");
  auto options = std::make_shared<BenchOptions>();
  generate_command->add_option("--config", options->config, "config.json of the model")->required();
  generate_command->add_option("--prompt", options->prompt, "Tokens of the prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--new", options->new_tokens, "Tokens to generate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--batch", options->batch, "Rows")->check(CLI::PositiveNumber)->capture_default_str();
  generate_command->add_option("--rounds", options->rounds, "The best of so many is reported")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--dtype", options->dtype, "Of weights and computation")->capture_default_str();
  generate_command->add_option("--device", options->device, "cpu or cuda")->capture_default_str();
  generate_command->add_flag("!--no-trace", options->trace, "Do not capture the step in a CUDA graph");
  generate_command->add_flag("--json", options->json, "Print JSON");
  generate_command->callback([options] { run(*options); });
}

}  // namespace easydel::cli
