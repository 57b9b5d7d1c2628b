#include "easydel/cli/options/model_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/fields/field_visitor.h"
#include "easydel/io/hub/hub.h"
#include "easydel/lora/lora.h"

namespace easydel::cli {
namespace {

// "DIR=0.5": the number after the last "="; an existing directory with "=" in its name is used as is.
std::pair<std::string, double> parse_adapter(const std::string& text) {
  const std::size_t sign = text.rfind('=');
  if (sign == std::string::npos || std::filesystem::is_directory(text)) return {text, 1.0};
  std::size_t read = 0;
  double weight = 0;
  try {
    weight = std::stod(text.substr(sign + 1), &read);
  } catch (const std::exception&) {
    read = 0;
  }
  require<UsageError>(read > 0 && sign + 1 + read == text.size() && std::isfinite(weight),
                      "--adapter takes DIR or DIR=WEIGHT; got \"", text, "\".");
  return {text.substr(0, sign), weight};
}

void load_adapters(BaseModule& model, const std::vector<std::string>& adapters) {
  if (adapters.empty()) return;
  std::vector<std::pair<std::string, double>> active;
  for (const std::string& text : adapters) {
    const auto [name, weight] = parse_adapter(text);
    const std::string own = adapters.size() == 1 ? "default" : concat("adapter_", active.size());
    load_adapter(model, resolve(name, {.files = {"adapter_config.json", "adapter_model.*"}}), own);
    active.emplace_back(own, weight);
  }
  set_adapters(model, active);
}

// A config that was saved on a mesh needs its devices. A single process loads the whole model, unless
// a mesh option was given.
void fall_back_to_one_device(LoadOptions& loading, const ModelOptions& options) {
  if (!options.mesh.empty() || World::current()->size() > 1 || loading.config_kwargs.contains("sharding_axis_dims"))
    return;
  const auto directory = resolve(options.model, {.revision = options.revision, .files = {"config.json"}});
  const auto config = AutoConfig::from_pretrained(directory.string(), {.overrides = loading.config_kwargs});
  const ShardingSettings& saved = config->sharding;
  const auto is_split = [](const std::vector<int64_t>& dims) {
    return std::any_of(dims.begin(), dims.end(), [](int64_t size) { return size > 1; });
  };
  if (!is_split(saved.axis_dims) && !is_split(saved.dcn_axis_dims)) return;
  log::info(options.model,
            " was saved on a mesh of several devices and is now loaded on one; use --mesh to change that.");
  loading.sharding.axis_dims.assign(saved.axis_dims.size(), 1);
  loading.sharding.dcn_axis_dims.assign(saved.dcn_axis_dims.size(), 1);
}

}  // namespace

void add_adapter_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--adapter", options.adapters,
                  "LoRA adapter in PEFT format, optionally scaled by a weight; can be repeated")
      ->type_name("DIR[=WEIGHT]")
      ->group("Model")
      ->allow_extra_args(false);
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("model", options.model, "A model directory, a .gguf file, or a model on the Hub")->required();
  command.add_option("--dtype", options.dtype, "Compute dtype (default: bf16 on a GPU, fp32 on a CPU)");
  command.add_option("--param-dtype", options.param_dtype, "Dtype of the stored weights (default: --dtype)");
  add_device_options(command, options);
  command
      .add_option("--task", options.task,
                  "causal-lm, sequence-to-sequence, masked-lm, token-classification, question-answering, "
                  "sequence-classification, base-module, …, or auto-bind: determined by the config")
      ->capture_default_str();
  command.add_option("--revision", options.revision, "Branch, tag or commit on the Hub")->capture_default_str();
  command.add_option("--set", options.overrides, "Override a config key: --set attn_mechanism=vanilla")
      ->type_name("KEY=VALUE");
  command
      .add_option("--quantize", options.quantize.method, "Quantize the weights while loading: 8bit, nf4, int4 or a8q")
      ->type_name("METHOD");
  command.add_option(
      "--quantize-pattern", options.quantize.pattern,
      "Regular expression for the paths of the layers to quantize (default: all linear layers except heads)");
  command.add_option("--quantize-group-size", options.quantize.group_size,
                     "Quantization group size: columns that share a scale");
  for (const char* name : {"--dtype", "--param-dtype", "--device", "--mesh", "--devices", "--task", "--revision",
                           "--set", "--quantize", "--quantize-pattern", "--quantize-group-size"})
    command.get_option(name)->group("Model");
}

ComputeSettings to_compute_settings(const ModelOptions& options) {
  return to_compute_settings({.device = options.device, .dtype = options.dtype, .param_dtype = options.param_dtype});
}

LoadOptions to_load_options(const ModelOptions& options) {
  const ComputeSettings compute = to_compute_settings(options);
  require<UsageError>(options.revision == "main" || !std::filesystem::exists(options.model), "--revision ",
                      options.revision, " applies only to models on the Hub; ", options.model, " is a local path.");
  require<UsageError>(!options.quantize.method.empty() || options.quantize.pattern.empty(), "--quantize-pattern ",
                      options.quantize.pattern, " needs --quantize METHOD.");
  require<UsageError>(!options.quantize.method.empty() || options.quantize.group_size == 0, "--quantize-group-size ",
                      options.quantize.group_size, " needs --quantize METHOD.");
  return {.device = compute.device,
          .dtype = compute.dtype,
          .param_dtype = compute.param_dtype,
          .sharding = {.axis_dims = options.mesh, .auto_shard_model = true},
          .config_kwargs = parse_overrides(options.overrides),
          .quantization_config = options.quantize.method.empty() ? std::nullopt : std::optional(options.quantize),
          .revision = options.revision};
}

Mesh set_mesh(BaseConfig& config, const ModelOptions& options, int64_t devices) {
  const std::string typed =
      concat("--devices ", devices, options.mesh.empty() ? "" : " ", options.mesh.empty() ? "" : mesh_text(options));
  try {
    if (!options.mesh.empty()) config.update(Json::object({{"sharding_axis_dims", options.mesh}}));
    return config.create_mesh(devices);
  } catch (const ConfigError& error) {
    fail<UsageError>(typed, ": ", error.what());
  }
}

void on_ranks(const ModelOptions& options, const std::function<void(World&)>& body) {
  const std::shared_ptr<World> process = World::current();
  const int64_t ranks = rank_count(options);
  require_threads_possible(options, ranks, to_compute_settings(options).device.is_cpu());
  if (ranks > 1 || !options.mesh.empty()) {  // printed once, before anything runs
    const auto directory = resolve(options.model, {.revision = options.revision, .files = {"config.json"}});
    const auto config =
        AutoConfig::from_pretrained(directory.string(), {.overrides = parse_overrides(options.overrides)});
    set_mesh(*config, options, ranks);
  }
  if (process->size() > 1 || ranks == 1) return body(*process);
  run_ranks(ranks, body);
}

std::shared_ptr<BaseModule> load(const ModelOptions& options) {
  LoadOptions loading = to_load_options(options);
  fall_back_to_one_device(loading, options);
  std::shared_ptr<BaseModule> model = load_model(options.model, parse_task(options.task), loading);
  load_adapters(*model, options.adapters);
  if (World::current()->rank() == 0)
    log::info(describe({.device = loading.device, .dtype = loading.dtype, .param_dtype = loading.param_dtype},
                       model->config().mesh()));
  return model;
}

}  // namespace easydel::cli
