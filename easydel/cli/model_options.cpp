#include "easydel/cli/model_options.h"

#include <CLI/CLI.hpp>

#include "easydel/core/error.h"
#include "easydel/infra/field_visitor.h"

namespace easydel::cli {
namespace {

at::Device parse_device(const std::string& name) {
  try {
    const at::Device device(name == "gpu" ? "cuda" : name);
    require<UsageError>(device.is_cpu() || device.is_cuda(), "a device is cpu, cuda or cuda:1; got \"", name, "\".");
    return device;
  } catch (const c10::Error&) {
    fail<UsageError>("a device is cpu, cuda or cuda:1; got \"", name, "\".");
  }
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("model", options.model, "A model directory, or the name of one on the hub")->required();
  command.add_option("--dtype", options.dtype, "What the model computes in")->capture_default_str();
  command.add_option("--param-dtype", options.param_dtype, "What its weights are stored in (default: --dtype)");
  command.add_option("--device", options.device, "cpu, cuda or cuda:1")->capture_default_str();
  command
      .add_option("--task", options.task,
                  "causal-lm, base-module, sequence-classification, or auto-bind: what the config says")
      ->capture_default_str();
  command.add_option("--revision", options.revision, "Branch, tag or commit on the hub")->capture_default_str();
  command.add_option("--set", options.overrides, "Change the config: --set attn_mechanism=vanilla")
      ->type_name("KEY=VALUE");
}

LoadOptions to_load_options(const ModelOptions& options) {
  const DType dtype = parse_dtype(options.dtype);
  return {.device = parse_device(options.device),
          .dtype = dtype,
          .param_dtype = options.param_dtype.empty() ? dtype : parse_dtype(options.param_dtype),
          .config_kwargs = parse_overrides(options.overrides),
          .revision = options.revision};
}

std::shared_ptr<BaseModule> load(const ModelOptions& options) {
  return load_model(options.model, parse_task(options.task), to_load_options(options));
}

}  // namespace easydel::cli
