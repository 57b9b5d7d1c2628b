// easydel info: a model's module tree, parameters, bytes and FLOPs, from its config only.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/files/packed_files.h"
#include "easydel/infra/files/weights.h"
#include "easydel/infra/parallel/sharding_plan.h"
#include "easydel/infra/registry.h"
#include "easydel/io/gguf/gguf_file.h"
#include "easydel/io/hub/hub.h"
#include "easydel/quantization/pack.h"
#include "easydel/quantization/quantize.h"

namespace easydel::cli {
namespace {

struct InfoOptions {
  ModelOptions model;
  int64_t sequence_length = 2048;
  int depth = -1;
  bool json = false;
};

std::string scaled(double value) {
  constexpr std::array<const char*, 5> kUnits{"", "K", "M", "G", "T"};
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.4g%s", value, kUnits[unit]);
  return buffer.data();
}

// "gptq, 4 bits, groups of 64", as config.json says it; empty: the files are dense.
std::string packed_as(const Json& config) {
  const Json* method = config.is_object() ? config.find("quant_method") : nullptr;
  if (!method || !method->is_string()) return "";
  const Json* own = *method == Json("easydel") ? config.find("method") : method;
  std::string text = own && own->is_string() ? own->as_string() : method->as_string();
  const auto add = [&](const char* key, const char* before, const char* after) {
    if (const Json* value = config.find(key); value && value->is_int())
      text += concat(", ", before, value->as_int(), after);
  };
  add("bits", "", " bits");
  add("group_size", "groups of ", "");
  return text;
}

void run(const InfoOptions& options) {
  const LoadOptions load = to_load_options(options.model);
  const std::string& method = options.model.quantize.method;
  const bool on_mesh = options.model.names_a_mesh();
  require<UsageError>(method.empty() || !on_mesh, "--quantize ", method,
                      " is not supported with --devices or --mesh here: ",
                      "the sharding plan is for dense weights. Leave one of them out.");
  require<UsageError>(!options.json || options.depth < 0, "--depth ", options.depth,
                      " limits the module tree, which --json does not print. Leave one of them out.");
  const auto directory = resolve(options.model.model, {.revision = options.model.revision, .files = {"config.json"}});
  const TaskType task = parse_task(options.model.task);
  const auto config = AutoConfig::for_task(task, directory.string(), {.overrides = load.config_kwargs});
  if (!method.empty() && find_gguf(directory)) config->quantization.weights = Json();  // as loading does
  const int64_t devices = rank_count(options.model);
  if (on_mesh) set_mesh(*config, options.model, devices);
  const Json files = method.empty() ? config->quantization.weights : Json();
  const std::string packed = packed_as(files);
  const auto module = Registry::instance().make_module(*config, task);
  const int64_t count = module->num_params();  // before weights become codes and scales
  const double flops = module->flops_per_token(1, options.sequence_length);
  // No file is read: where the weights come from is named in errors alone.
  if (!method.empty()) module->transform(packing_at_load(*module, load, make_tensor_source({}, directory.string())));
  module->set_options({.dtype = load.dtype, .param_dtype = load.param_dtype});

  const std::optional<ShardingPlan> plan = on_mesh ? std::optional(plan_sharding(*module, devices)) : std::nullopt;
  const int64_t bytes = parameter_bytes(*module);
  const std::string stored_as = concat(method, method.empty() ? "" : " and ", dtype_name(load.param_dtype));
  if (options.json) {
    Json parameters = Json::array();
    for (const ParameterInfo& info : module->graphtree_params_shape()) {
      parameters.push_back(
          Json::object({{"path", info.path}, {"dtype", dtype_name(info.shape.dtype)}, {"shape", info.shape.shape}}));
    }
    Json report = Json::object({{"class", module->type_name()},
                                {"model_type", module->model_type()},
                                {"task", task_name(module->model_task())},
                                {"parameters", count},
                                {"bytes", bytes},
                                {"sequence_length", options.sequence_length},
                                {"flops_per_token", flops},
                                {"tensors", std::move(parameters)}});
    if (!packed.empty()) report["quantization_config"] = files;
    if (plan) report["sharding"] = plan->to_json();
    return print_json(report);
  }
  std::cout << prettify(*module, options.depth) << "\n\n";
  print_table(
      {{"class", concat(module->type_name(), " (", module->model_type(), ", ", task_name(module->model_task()), ")")},
       {"parameters", concat(group_digits(count), " (", scaled(static_cast<double>(count)), ")")},
       {"bytes", concat(format_bytes(bytes), " in ", stored_as, packed.empty() ? "" : " if dense")},
       {"forward", concat(scaled(flops), "FLOP per token at sequence length ", options.sequence_length)}});
  if (!packed.empty()) std::cout << "\nThe files are packed: " << packed << ".\n";
  if (plan) std::cout << "\n" << plan->to_string();
}

}  // namespace

void add_info_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "info",
      "Show a model's module tree, parameters, size and FLOPs; with --devices or --mesh, what each rank stores");
  auto options = std::make_shared<InfoOptions>();
  add_model_options(*command, options->model);
  command
      ->add_option("--sequence-length", options->sequence_length, "Sequence length for counting the FLOPs of attention")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--depth", options->depth, "Levels of the tree to show (default: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli
