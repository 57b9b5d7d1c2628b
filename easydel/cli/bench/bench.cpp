// easydel bench generate: generation speed of this machine, with a model's weights or random ones of any shape.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "easydel/cli/bench/bench_tools.h"
#include "easydel/cli/commands.h"
#include "easydel/cli/options/device_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/core/text/bytes.h"
#include "easydel/generation/generate.h"

namespace easydel::cli {
namespace {

struct BenchOptions {
  std::string model, config, dtype, device, quantize;
  int64_t prompt = 128, new_tokens = 128, batch = 1, rounds = 3;
  bool trace = true;
  bool json = false;
};

struct Round {
  double first_token = 1e30, decode = 1e30;  // seconds; decode: for the tokens after the first
};

// Without end tokens, so that every round generates the requested number of tokens.
Round run_round(const BaseModule& model, const at::Tensor& ids, const BenchOptions& options, at::Device device) {
  GenerateOptions given;
  given.trace = options.trace;
  given.generation_config.do_sample = false;
  const auto generate_tokens = [&](int64_t count) {
    given.generation_config.max_new_tokens = count;
    wait_for(device);
    const double begin = seconds();
    generate(model, ids, given);
    wait_for(device);
    return seconds() - begin;
  };
  if (device.is_cuda()) {  // reading each token would wait for the device, so two runs are compared
    const double first = generate_tokens(1);
    return {first, generate_tokens(options.new_tokens) - first};
  }
  double first = 0;
  given.streamer = [&](std::span<const int64_t>) {
    if (first == 0) first = seconds();
  };
  const double begin = seconds(), all = generate_tokens(options.new_tokens);
  return {first - begin, all - (first - begin)};
}

void run(const BenchOptions& options) {
  const auto [device, dtype, param_dtype] = to_compute_settings({.device = options.device, .dtype = options.dtype});
  require<UsageError>(options.trace || device.is_cuda(), "--no-trace applies only to CUDA graphs; got the device ",
                      device.str(), ". Leave it out, or use --device cuda.");
  require<UsageError>(options.model.empty() != options.config.empty(),
                      "either MODEL or --config (random weights) is required.");
  const double begin = seconds();
  const std::shared_ptr<BaseModule> model = load_or_make(
      {options.model, options.config, options.dtype, options.device, options.quantize}, {device, dtype, param_dtype});
  GenerationConfig endless = model->generation_config();
  endless.eos_token_id = {};
  model->set_generation_config(endless);
  wait_for(device);
  const double made = seconds() - begin;
  const at::Tensor ids = random_ids(options.batch, options.prompt, model->config().vocab_size);
  run_round(*model, ids, options, device);  // warm-up
  Round best;
  int64_t rounds = 0;
  for (; rounds < options.rounds; ++rounds) {
    const Round round = run_round(*model, ids, options, device);
    best = {std::min(best.first_token, round.first_token), std::min(best.decode, round.decode)};
  }
  const auto batch = static_cast<double>(options.batch);
  const double prefill = batch * static_cast<double>(options.prompt) / best.first_token;
  const double decode =
      options.new_tokens > 1 ? batch * static_cast<double>(options.new_tokens - 1) / best.decode : 0.0;
  const int64_t peak = peak_memory(device);
  if (options.json) {
    print_json(Json::object({{"parameters", model->num_params()},
                             {"parameter_bytes", parameter_bytes(*model)},
                             {"device", device.str()},
                             {"dtype", std::string(dtype_name(dtype))},
                             {"threads", at::get_num_threads()},
                             {"batch", options.batch},
                             {"prompt", options.prompt},
                             {"new", options.new_tokens},
                             {"rounds", rounds},
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
  CLI::App* command = app.add_subcommand("bench", "Measure the speed of this machine");
  command->require_subcommand(1);
  CLI::App* generate_command = command->add_subcommand("generate", "Measure prefill and decoding");
  auto options = std::make_shared<BenchOptions>();
  generate_command->add_option("MODEL", options->model, "A model directory, a .gguf file or a model on the Hub");
  generate_command->add_option("--config", options->config, "config.json to use with random weights instead of MODEL");
  generate_command->add_option("--prompt", options->prompt, "Number of prompt tokens")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--new", options->new_tokens, "Number of tokens to generate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--batch", options->batch, "Batch size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--rounds", options->rounds, "Number of rounds; the best is reported")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  generate_command->add_option("--dtype", options->dtype,
                               "Dtype of weights and computation (default: bf16 on a GPU, fp32 on a CPU)");
  generate_command->add_option("--quantize", options->quantize, "Quantize all matrices: 8bit, nf4, int4 or a8q")
      ->type_name("METHOD");
  generate_command->add_option("--device", options->device, "cpu, cuda or cuda:1 (default: a GPU if available)");
  generate_command->add_flag("!--no-trace", options->trace, "Do not capture the decoding step in a CUDA graph");
  generate_command->add_flag("--json", options->json, "Print JSON");
  generate_command->callback([options] { run(*options); });
  add_bench_moe_command(*command);
  add_bench_serve_command(*command);
  add_bench_train_command(*command);
}

}  // namespace easydel::cli
