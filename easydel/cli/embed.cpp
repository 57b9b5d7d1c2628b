// easydel embed: vectors of images and texts.
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/image_inputs.h"
#include "easydel/cli/options/text_vectors.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/core/error.h"
#include "easydel/infra/encoder/two_towers.h"
#include "easydel/io/hub/hub.h"
#include "easydel/io/safetensors/safetensors_writer.h"

namespace easydel::cli {
namespace {

struct EmbedArguments {
  ModelOptions model;
  std::vector<std::string> texts, images;
  std::string pooling;  // empty: as the files say
  std::string output;
  bool json = false;
};

struct Vectors {
  at::Tensor texts, images;  // [count, D], undefined: none
};

Vectors embed(const BaseModule& module, const EmbedArguments& options) {
  ModelInputs inputs;
  const at::Device device = module.options().device;
  if (options.images.empty() && reads_text_alone(options.model)) {
    const auto directory = resolve(options.model.model, {.revision = options.model.revision});
    return {.texts = text_vectors(options.model, module, options.texts, text_pooling(directory, options.pooling))};
  }
  require<UsageError>(options.pooling.empty(), "--pooling: ", module.type_name(),
                      " gives one embedding per text or image. Pooling applies to text-only models.");
  if (!options.images.empty()) inputs.pixel_values = read_images(options.model, options.images).to(device);
  if (module.main_input_name() == "pixel_values") {
    require<UsageError>(options.texts.empty(), "--text: ", module.type_name(), " has no text tower.");
    const ModelOutput out = module(inputs);
    require<NotSupportedError>(out.image_embeds.defined() || out.pooler_output.defined(), "[embed] ",
                               module.type_name(),
                               " has no image embedding. Load its base model with --task "
                               "base-module, or see easydel classify.");
    return {.images = out.image_embeds.defined() ? out.image_embeds : out.pooler_output};
  }
  const auto* towers = dynamic_cast<const TwoTowerModule*>(&module);
  require<NotSupportedError>(
      towers != nullptr, "[embed] ", module.type_name(),
      " must be an image embedding model (clip, siglip, vit, dinov2), or a text model with --text "
      "(bert, qwen3); encoder-decoders are not supported.");
  if (!options.texts.empty()) inputs.input_ids = read_texts(options.model, module, options.texts).to(device);
  return {.texts = inputs.input_ids.defined() ? towers->text_features(inputs) : at::Tensor(),
          .images = inputs.pixel_values.defined() ? towers->image_features(inputs) : at::Tensor()};
}

std::string shown(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(4) << value;
  return text.str();
}

void run(const EmbedArguments& options, World& world) {
  const std::shared_ptr<BaseModule> module = load(options.model);
  const at::NoGradGuard no_grad;
  const Vectors vectors = embed(*module, options);
  if (world.rank() != 0) return;
  NamedTensors tensors;
  std::vector<at::Tensor> all;
  for (const auto& [name, rows] :
       {std::pair("text_embeds", vectors.texts), std::pair("image_embeds", vectors.images)}) {
    if (!rows.defined()) continue;
    tensors.emplace_back(name, rows.contiguous());
    all.push_back(rows.to(at::kCPU, at::kDouble));
  }
  if (!options.output.empty()) save_safetensors(options.output, tensors);
  const at::Tensor rows = at::cat(all);
  const at::Tensor unit = rows / rows.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12);
  const at::Tensor cosines = at::matmul(unit, unit.t());
  std::vector<std::string> names = options.texts;
  names.insert(names.end(), options.images.begin(), options.images.end());
  if (options.json) {
    Json lines = Json::array();
    for (int64_t i = 0; i < rows.size(0); ++i) {
      Json::Array near;
      for (int64_t j = 0; j < rows.size(0); ++j) near.emplace_back(cosines[i][j].item<double>());
      lines.push_back(Json::object({{"name", names[static_cast<std::size_t>(i)]}, {"cosines", near}}));
    }
    return print_json(Json::object({{"size", rows.size(1)}, {"vectors", lines}}));
  }
  std::vector<std::vector<std::string>> table;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    std::vector<std::string> line{names[static_cast<std::size_t>(i)]};
    for (int64_t j = 0; j < rows.size(0); ++j) line.push_back(shown(cosines[i][j].item<double>()));
    table.push_back(line);
  }
  print_table(table);
}

}  // namespace

void add_embed_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("embed", "Compute embeddings of images and texts, and their cosine similarities");
  auto options = std::make_shared<EmbedArguments>();
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  command->add_option("--text", options->texts, "Text to embed; can be repeated")->type_name("TEXT");
  command->add_option("--image", options->images, "Image file: JPEG, PNG, WebP, GIF or BMP; can be repeated")
      ->type_name("FILE");
  command
      ->add_option(
          "--pooling", options->pooling,
          "How the hidden states of a text are pooled, for text-only models: first, last, mean, weighted_mean or max "
          "(default: that of sentence-transformers' modules.json, else mean)")
      ->check(CLI::IsMember({"first", "last", "mean", "weighted_mean", "max"}));
  command->add_option("--output", options->output, "safetensors file to write: text_embeds, image_embeds");
  command->add_flag("--json", options->json, "Print JSON: the name and the cosine similarities of each input");
  command->footer(
      help_examples({"embed openai/clip-vit-base-patch32 --image cat.jpg --text \"a cat\" --text \"a dog\""}));
  command->callback([options, command] {
    require<UsageError>(!options->texts.empty() || !options->images.empty(), "easydel embed needs --text or --image.");
    require<UsageError>(rank_count(options->model) == 1, "easydel embed runs on one device; got --devices or --mesh.");
    if (command->get_option("--task")->count() == 0 && options->images.empty() && reads_text_alone(options->model))
      options->model.task = task_name(TaskType::Embedding);
    on_ranks(options->model, [&](World& world) { run(*options, world); });
  });
}

}  // namespace easydel::cli
