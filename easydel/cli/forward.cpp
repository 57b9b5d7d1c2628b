// easydel forward: writes a model's outputs for given inputs to a file, to compare with other implementations.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/files/weights.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"

namespace easydel::cli {
namespace {

struct ForwardOptions {
  ModelOptions model;
  std::string input, output;
  bool hidden_states = false;
  bool grad = false;
  bool profile = false;
  bool json = false;
};

ModelInputs read_inputs(const std::string& path, at::Device device) {
  const auto file = SafetensorsFile::open(path);
  ModelInputs inputs;
  const std::vector<std::pair<std::string, at::Tensor*>> known{
      {"input_ids", &inputs.input_ids},           {"inputs_embeds", &inputs.inputs_embeds},
      {"attention_mask", &inputs.attention_mask}, {"position_ids", &inputs.position_ids},
      {"segment_ids", &inputs.segment_ids},       {"labels", &inputs.labels},
      {"token_type_ids", &inputs.token_type_ids}};
  for (const std::string& name : file->names()) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.first == name; });
    require<FormatError>(
        found != known.end(), "[", path, "] \"", name,
        "\" is not an input; inputs are input_ids, inputs_embeds, attention_mask, position_ids, segment_ids, "
        "labels and token_type_ids.");
    *found->second = file->tensor(name).to(device);
  }
  return inputs;
}

void add_gradients(const BaseModule& module, NamedTensors& tensors) {
  std::unordered_map<std::string, at::Tensor> grads;
  for (const auto& [path, parameter] : module.named_parameters()) {
    const at::Tensor& grad = parameter->value().grad();
    const at::Tensor part = grad.defined() ? grad : at::zeros_like(parameter->value());
    grads[path] = parameter->sharding() ? parameter->sharding()->gather_whole(part) : part;
  }
  for (const SavedTensor& saved : saved_tensors(module)) {
    tensors.emplace_back("grad." + saved.info.name, cut(grads.at(saved.path), saved.piece).contiguous());
  }
}

void print_profile(const CommunicationStats& stats) {
  std::vector<std::vector<std::string>> rows{{"axes", "collective", "calls", "bytes sent"}};
  for (const auto& [key, entry] : stats.entries)
    rows.push_back({key.first, key.second, group_digits(entry.calls), group_digits(entry.bytes)});
  print_table(rows);
}

Json to_json(const CommunicationStats& stats) {
  Json list = Json::array();
  for (const auto& [key, entry] : stats.entries) {
    list.push_back(Json::object(
        {{"axes", key.first}, {"collective", key.second}, {"calls", entry.calls}, {"bytes", entry.bytes}}));
  }
  return list;
}

void run(const ForwardOptions& options, World& world) {
  const std::shared_ptr<BaseModule> module = load(options.model);
  ModelInputs inputs = read_inputs(options.input, module->options().device);
  require<UsageError>(!options.grad || inputs.labels.defined(), "--grad needs labels in ", options.input, ".");
  inputs.output_hidden_states = options.hidden_states;
  inputs.output_logits = true;
  const at::AutoGradMode grad_mode(options.grad);
  world.stats().reset();
  const ModelOutput output = (*module)(inputs);
  if (options.grad) output.loss.backward();
  const CommunicationStats sent = world.stats();  // before the outputs are gathered for the file

  NamedTensors tensors;
  const auto put = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) tensors.emplace_back(name, tensor.detach());
  };
  put("logits", output.logits);
  put("loss", output.loss);
  put("aux_loss", output.aux_loss);
  if (!output.logits.defined()) put("last_hidden_state", output.last_hidden_state);
  for (std::size_t i = 0; i < output.hidden_states.size(); ++i)
    put(concat("hidden_states.", i), output.hidden_states[i]);
  for (std::size_t i = 0; i < output.router_logits.size(); ++i)
    put(concat("router_logits.", i), output.router_logits[i]);
  if (options.grad) add_gradients(*module, tensors);
  if (world.rank() != 0) return;
  save_safetensors(options.output, tensors);

  Json report = Json::object({{"output", options.output}, {"tensors", tensors.size()}});
  if (output.loss.defined()) report["loss"] = output.loss.item<double>();
  if (options.profile) report["communication"] = to_json(sent);
  if (options.json) return print_json(report);
  std::cout << options.output << ": " << tensors.size() << " tensors";
  if (output.loss.defined()) std::cout << ", loss " << output.loss.item<double>();
  std::cout << "\n";
  if (options.profile) print_profile(sent);
}

}  // namespace

void add_forward_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("forward", "Run a model on inputs from a file and write its outputs to a file");
  auto options = std::make_shared<ForwardOptions>();
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  command
      ->add_option("--input", options->input,
                   "safetensors file with input_ids and optionally attention_mask, position_ids, "
                   "segment_ids, labels, token_type_ids")
      ->required();
  command->add_option("--output", options->output, "safetensors file to write: logits, loss, …")->required();
  command->add_flag("--hidden-states", options->hidden_states, "Write hidden_states.0, hidden_states.1, …");
  command->add_flag("--grad", options->grad, "Write grad.NAME for every saved tensor; needs labels");
  command->add_flag("--profile", options->profile,
                    "Print what rank 0 sent to other ranks, by mesh axes and collective");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { on_ranks(options->model, [&](World& world) { run(*options, world); }); });
}

}  // namespace easydel::cli
