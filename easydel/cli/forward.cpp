// easydel forward: writes a model's outputs for given inputs to a file, to compare with other implementations.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/files/weights.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"

namespace easydel::cli {
namespace {

struct ForwardOptions {
  ModelOptions model;
  std::string input, output;
  bool hidden_states = false, attentions = false;
  bool grad = false;
  bool profile = false;
  bool json = false;
};

ModelInputs read_inputs(const std::string& path, at::Device device) {
  const auto file = SafetensorsFile::open(path);
  ModelInputs inputs;
  const std::vector<std::pair<std::string, at::Tensor*>> known{
      {"input_ids", &inputs.input_ids},
      {"inputs_embeds", &inputs.inputs_embeds},
      {"attention_mask", &inputs.attention_mask},
      {"position_ids", &inputs.position_ids},
      {"segment_ids", &inputs.segment_ids},
      {"labels", &inputs.labels},
      {"token_type_ids", &inputs.token_type_ids},
      {"decoder_input_ids", &inputs.decoder_input_ids},
      {"decoder_attention_mask", &inputs.decoder_attention_mask},
      {"decoder_inputs_embeds", &inputs.decoder_inputs_embeds},
      {"encoder_outputs", &inputs.encoder_outputs},
      {"pixel_values", &inputs.pixel_values},
      {"pixel_attention_mask", &inputs.pixel_attention_mask},
      {"image_sizes", &inputs.image_sizes},
      {"image_grid_thw", &inputs.image_grid_thw},
      {"pixel_values_videos", &inputs.pixel_values_videos},
      {"video_grid_thw", &inputs.video_grid_thw},
      {"second_per_grid_ts", &inputs.second_per_grid_ts},
      {"input_features", &inputs.input_features},
      {"mm_token_type_ids", &inputs.mm_token_type_ids},
      {"start_positions", &inputs.start_positions},
      {"end_positions", &inputs.end_positions}};
  // Numbers that are true or false.
  const std::vector<std::pair<std::string, std::optional<bool>*>> switches{
      {"return_loss", &inputs.return_loss}, {"interpolate_pos_encoding", &inputs.interpolate_pos_encoding}};
  const auto find = [](const auto& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  };
  for (const std::string& name : file->names()) {
    if (const auto found = find(switches, name); found != switches.end()) {
      require<FormatError>(file->tensor(name).numel() == 1, "[", path, "] \"", name, "\" must be one number; got ",
                           file->tensor(name).sizes(), ".");
      *found->second = file->tensor(name).item<double>() != 0;
      continue;
    }
    const auto found = find(known, name);
    if (found == known.end()) {
      std::string names;
      for (const auto& [other, tensor] : known) names += other + ", ";
      fail<FormatError>("[", path, "] \"", name, "\" is not an input; inputs are ", names,
                        "return_loss and interpolate_pos_encoding.");
    }
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
  require<UsageError>(!options.grad || inputs.labels.defined() || inputs.return_loss.value_or(false) ||
                          inputs.start_positions.defined(),
                      "--grad needs labels in ", options.input,
                      ", or start_positions and end_positions, or return_loss.");
  inputs.output_hidden_states = options.hidden_states;
  inputs.output_attentions = options.attentions;
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
  put("start_logits", output.start_logits);
  put("end_logits", output.end_logits);
  put("pooler_output", output.pooler_output);
  put("encoder_last_hidden_state", output.encoder_last_hidden_state);
  put("image_embeds", output.image_embeds);
  put("text_embeds", output.text_embeds);
  put("logits_per_image", output.logits_per_image);
  put("logits_per_text", output.logits_per_text);
  put("image_hidden_states", output.image_hidden_states);
  put("rope_deltas", output.rope_deltas);
  if (!output.logits.defined() && !output.start_logits.defined()) put("last_hidden_state", output.last_hidden_state);
  const auto put_all = [&](const std::string& name, const std::vector<at::Tensor>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) put(concat(name, ".", i), list[i]);
  };
  // transformers says of an encoder-decoder whose states they are.
  const std::string own = is_seq2seq(*module) ? "decoder_" : "";
  put_all(own + "hidden_states", output.hidden_states);
  put_all(own + "attentions", output.attentions);
  put_all("encoder_hidden_states", output.encoder_hidden_states);
  put_all("encoder_attentions", output.encoder_attentions);
  put_all("cross_attentions", output.cross_attentions);
  put_all("router_logits", output.router_logits);
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
                   "segment_ids, labels, token_type_ids, decoder_input_ids, start_positions, …")
      ->required();
  command->add_option("--output", options->output, "safetensors file to write: logits, loss, …")->required();
  command->add_flag("--hidden-states", options->hidden_states, "Write hidden_states.0, hidden_states.1, …");
  command->add_flag("--attentions", options->attentions, "Write attentions.0, attentions.1, …");
  command->add_flag("--grad", options->grad, "Write grad.NAME for every saved tensor; needs labels");
  command->add_flag("--profile", options->profile,
                    "Print what rank 0 sent to other ranks, by mesh axes and collective");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { on_ranks(options->model, [&](World& world) { run(*options, world); }); });
}

}  // namespace easydel::cli
