// easydel bench train: training speed of this machine, with random weights and tokens of any shape.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "easydel/cli/bench/bench_tools.h"
#include "easydel/cli/commands.h"
#include "easydel/cli/options/device_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/memory.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/state/state.h"
#include "easydel/lora/lora.h"
#include "easydel/optim/optimizers.h"
#include "easydel/quantization/quantize.h"
#include "easydel/trainers/logs/training_flops.h"
#include "easydel/trainers/run/float8_training.h"
#include "easydel/trainers/run/gradients.h"

namespace easydel::cli {
namespace {

struct BenchTrainOptions {
  std::string config, dtype, param_dtype, device, checkpointing, quantize, fp8;
  int64_t batch = 4, length = 512, steps = 8, warmup = 2;
  int64_t lora_rank = 0;
  double learning_rate = 1e-4;
  bool json = false;
};

void run(const BenchTrainOptions& options) {
  keep_freed_memory();  // as the trainer does
  const ComputeSettings compute = to_compute_settings(
      {.device = options.device, .dtype = options.dtype, .param_dtype = options.param_dtype, .is_training = true});
  const at::Device device = compute.device;
  std::unique_ptr<BaseConfig> config = AutoConfig::from_dict(Json::parse_file(options.config));
  if (!options.checkpointing.empty()) config->memory.gradient_checkpointing = options.checkpointing;
  const int64_t before = used_memory(device);
  const std::shared_ptr<BaseModule> model = init_model(
      *config, TaskType::CausalLM, {.dtype = compute.dtype, .param_dtype = compute.param_dtype, .device = device});
  if (!options.quantize.empty()) model->quantize({.method = options.quantize});
  if (options.lora_rank > 0)
    model->apply_lora_to_layers(options.lora_rank, 2.0 * static_cast<double>(options.lora_rank),
                                "self_attn\\..*_proj|mlp\\..*_proj");
  if (!options.fp8.empty()) train_in_float8(*model, operations::parse_float8(options.fp8));
  State state = model->to_state(optim::adamw(options.learning_rate));
  const at::Tensor ids = random_ids(options.batch, options.length, config->vocab_size).to(device);
  std::vector<double> times;
  double first_loss = 0, loss = 0;
  for (int64_t i = 0; i < options.warmup + options.steps; ++i) {
    wait_for(device);
    const double begin = seconds();
    ModelOutput out = (*model)({.input_ids = ids, .labels = ids});
    out.loss.backward();
    state = std::move(state).apply_gradients(take_gradients(state.graphstate));
    wait_for(device);
    if (i >= options.warmup) times.push_back(seconds() - begin);
    loss = out.loss.item<double>();
    if (i == 0) first_loss = loss;
  }
  std::sort(times.begin(), times.end());
  const auto tokens = static_cast<double>(options.batch * options.length);
  const double best = tokens / times.front(), median = tokens / times[times.size() / 2];
  const int64_t peak = peak_memory(device) - (device.is_cpu() ? before : 0);
  const double flops = TrainingFlops(*model).of_document(options.length) / static_cast<double>(options.length);
  if (options.json) {
    print_json(Json::object({{"parameters", model->num_params()},
                             {"parameter_bytes", parameter_bytes(*model)},
                             {"device", device.str()},
                             {"dtype", std::string(dtype_name(compute.dtype))},
                             {"threads", at::get_num_threads()},
                             {"batch", options.batch},
                             {"length", options.length},
                             {"steps", options.steps},
                             {"tokens_per_second", best},
                             {"median_tokens_per_second", median},
                             {"tflops", best * flops / 1e12},
                             {"first_loss", first_loss},
                             {"loss", loss},
                             {"peak_bytes", peak}}));
    return;
  }
  print_table({{"parameters", group_digits(model->num_params())},
               {"training", concat(best, " tokens/s (median ", median, ")")},
               {"compute", concat(best * flops / 1e12, " TFLOP/s")},
               {"loss", concat(first_loss, " to ", loss)},
               {"peak memory", format_bytes(peak)}});
}

}  // namespace

void add_bench_train_command(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("train", "Measure training steps (AdamW) with random weights and tokens");
  auto options = std::make_shared<BenchTrainOptions>();
  command->add_option("--config", options->config, "config.json of the model")->required();
  command->add_option("--batch", options->batch, "Batch size")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--length", options->length, "Sequence length")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Number of timed steps; the best is reported")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "Compute dtype (default: bf16 on a GPU, fp32 on a CPU)");
  command->add_option("--param-dtype", options->param_dtype, "Dtype of weights and optimizer state (default: fp32)");
  command->add_option("--device", options->device, "cpu, cuda or cuda:1 (default: a GPU if available)");
  command->add_option("--gradient-checkpointing", options->checkpointing, "Gradient checkpointing policy");
  command
      ->add_option("--quantize", options->quantize,
                   "Quantize the linear layers first, for training adapters: nf4, 8bit, int4")
      ->type_name("METHOD");
  command->add_option("--fp8", options->fp8,
                      "Use float8 matrix products in linear layers, with rowwise or tensorwise scales");
  command->add_option("--lora-rank", options->lora_rank, "Train only LoRA adapters of this rank, on attention and MLP")
      ->check(CLI::PositiveNumber);
  command->add_option("--learning-rate", options->learning_rate, "Learning rate of AdamW")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli
