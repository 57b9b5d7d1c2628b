// easydel classify: what is in an image.
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/image_inputs.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/core/error.h"
#include "easydel/infra/encoder/two_towers.h"

namespace easydel::cli {
namespace {

struct ClassifyArguments {
  ModelOptions model;
  std::vector<std::string> images, labels;
  int64_t top_k = 5;
  bool json = false;
};

struct Scores {
  at::Tensor probabilities;  // [images, labels]
  std::vector<std::string> labels;
};

Scores classify(const BaseModule& module, const ClassifyArguments& options) {
  const at::Device device = module.options().device;
  ModelInputs inputs;
  inputs.pixel_values = read_images(options.model, options.images).to(device);
  if (const auto* towers = dynamic_cast<const TwoTowerModule*>(&module)) {
    require<UsageError>(!options.labels.empty(), "--label: ", module.type_name(),
                        " needs the labels to choose from, as in --label \"a photo of a cat\".");
    inputs.input_ids = read_texts(options.model, module, options.labels).to(device);
    const at::Tensor logits = module(inputs).logits_per_image;
    const bool pairs = towers->contrastive_loss() == ContrastiveLoss::Sigmoid;
    return {pairs ? at::sigmoid(logits) : at::softmax(logits, -1), options.labels};
  }
  require<NotSupportedError>(module.model_task() == TaskType::ImageClassification, "[classify] ", module.type_name(),
                             " must be an image classifier, or a text-image model (clip, siglip).");
  require<UsageError>(options.labels.empty(), "--label: ", module.type_name(),
                      " has its own labels. Leave --label out.");
  Scores scores{.probabilities = at::softmax(module(inputs).logits, -1)};
  const BaseConfig& config = module.config();
  for (int64_t i = 0; i < config.num_labels(); ++i) {
    const auto name = config.id2label.find(i);
    scores.labels.push_back(name == config.id2label.end() ? concat("LABEL_", i) : name->second);
  }
  return scores;
}

void run(const ClassifyArguments& options, World& world) {
  const std::shared_ptr<BaseModule> module = load(options.model);
  const at::NoGradGuard no_grad;
  const Scores scores = classify(*module, options);
  if (world.rank() != 0) return;
  const int64_t count = std::min<int64_t>(options.top_k, scores.probabilities.size(1));
  const auto [values, places] = scores.probabilities.to(at::kCPU, at::kDouble).topk(count, -1);
  Json all = Json::array();
  for (std::size_t row = 0; row < options.images.size(); ++row) {
    Json best = Json::array();
    if (!options.json) std::cout << options.images[row] << "\n";
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<int64_t>(row);
      const std::string& label = scores.labels[static_cast<std::size_t>(places[at][i].item<int64_t>())];
      const double probability = values[at][i].item<double>();
      best.push_back(Json::object({{"label", label}, {"probability", probability}}));
      if (!options.json)
        std::cout << "  " << std::fixed << std::setprecision(4) << probability << "  " << label << "\n";
    }
    all.push_back(Json::object({{"image", options.images[row]}, {"labels", best}}));
  }
  if (options.json) print_json(all);
}

}  // namespace

void add_classify_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("classify", "Classify images, with a classifier or zero-shot with CLIP or SigLIP");
  auto options = std::make_shared<ClassifyArguments>();
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  command->add_option("--image", options->images, "Image file: JPEG, PNG, WebP, GIF or BMP; can be repeated")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--label", options->labels,
                   "Label to choose from, for zero-shot classification with text-image models; can be repeated")
      ->type_name("TEXT");
  command->add_option("--top-k", options->top_k, "Number of labels to print for each image")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      help_examples({"classify google/vit-base-patch16-224 --image cat.jpg",
                     "classify openai/clip-vit-base-patch32 --image cat.jpg --label \"a cat\" --label \"a dog\""}));
  command->callback([options] {
    require<UsageError>(options->top_k >= 1, "--top-k must be at least 1; got ", options->top_k, ".");
    on_ranks(options->model, [&](World& world) { run(*options, world); });
  });
}

}  // namespace easydel::cli
