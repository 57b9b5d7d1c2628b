// easydel classify: the labels of images, texts and recordings.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

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
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/data/open_dataset.h"
#include "easydel/infra/encoder/two_towers.h"
#include "easydel/processors/feature_extractor.h"

namespace easydel::cli {
namespace {

struct ClassifyArguments {
  ModelOptions model;
  std::vector<std::string> images, texts, sounds, labels;
  std::string data, text_field = "text";
  int64_t top_k = 5;
  bool json = false;
};

// What logits become: probabilities, which add up to 1 or stand for themselves, or nothing, of a regression.
enum class Scoring { Softmax, Sigmoid, None };

struct Scores {
  at::Tensor values;  // [inputs, labels]
  std::vector<std::string> labels;
  Scoring scoring = Scoring::Softmax;
};

// As in transformers' pipelines.
Scoring scoring_of(const BaseModule& module) {
  const BaseConfig& config = module.config();
  if (module.model_task() == TaskType::AudioClassification) return Scoring::Softmax;
  if (config.problem_type == "regression") return Scoring::None;
  const bool stand_alone = config.problem_type == "multi_label_classification" || config.num_labels() == 1;
  return stand_alone ? Scoring::Sigmoid : Scoring::Softmax;
}

at::Tensor scores_of(const at::Tensor& logits, Scoring scoring) {
  const at::Tensor wide = logits.to(at::kFloat);
  if (scoring == Scoring::None) return wide;
  return scoring == Scoring::Sigmoid ? at::sigmoid(wide) : at::softmax(wide, -1);
}

void require_task(const BaseModule& module, TaskType task, const char* flag, const char* what) {
  require<NotSupportedError>(module.model_task() == task, flag, ": ", module.type_name(), " is not ", what,
                             ". Use a model of the task ", task_name(task), ".");
}

at::Tensor text_logits(const BaseModule& module, const ClassifyArguments& options,
                       const std::vector<std::string>& texts) {
  std::vector<at::Tensor> rows;
  for (const ModelInputs& inputs : inputs_of_texts("classify", options.model, module, texts))
    rows.push_back(module(inputs).logits);
  return at::cat(rows);
}

at::Tensor sound_logits(const BaseModule& module, const ClassifyArguments& options) {
  const WhisperFeatureExtractor extractor =
      AutoFeatureExtractor::from_pretrained(options.model.model, {.revision = options.model.revision});
  std::vector<at::Tensor> rows;
  for (const std::string& file : options.sounds) {
    ModelInputs inputs;
    inputs.input_features = extractor({extractor.load(file)}).to(module.options().device);
    rows.push_back(module(inputs).logits);
  }
  return at::cat(rows);
}

Scores zero_shot(const BaseModule& module, const TwoTowerModule& towers, const ClassifyArguments& options) {
  require<UsageError>(!options.labels.empty(), "--label: ", module.type_name(),
                      " needs the labels to choose from, as in --label \"a photo of a cat\".");
  require<UsageError>(!options.images.empty(), "--image: ", module.type_name(), " classifies images; got none.");
  const at::Device device = module.options().device;
  ModelInputs inputs;
  inputs.pixel_values = read_images(options.model, options.images).to(device);
  inputs.input_ids = read_texts(options.model, module, options.labels).to(device);
  const bool pairs = towers.contrastive_loss() == ContrastiveLoss::Sigmoid;
  const Scoring scoring = pairs ? Scoring::Sigmoid : Scoring::Softmax;
  return {scores_of(module(inputs).logits_per_image, scoring), options.labels, scoring};
}

Scores classify(const BaseModule& module, const ClassifyArguments& options, const std::vector<std::string>& texts) {
  if (const auto* towers = dynamic_cast<const TwoTowerModule*>(&module)) return zero_shot(module, *towers, options);
  require<UsageError>(options.labels.empty(), "--label: ", module.type_name(),
                      " has its own labels. Leave --label out.");
  at::Tensor logits;
  if (!options.images.empty()) {
    require_task(module, TaskType::ImageClassification, "--image",
                 "an image classifier or a text-image model (clip, siglip)");
    ModelInputs inputs;
    inputs.pixel_values = read_images(options.model, options.images).to(module.options().device);
    logits = module(inputs).logits;
  } else if (!options.sounds.empty()) {
    require_task(module, TaskType::AudioClassification, "--audio", "an audio classifier");
    logits = sound_logits(module, options);
  } else {
    require_task(module, TaskType::SequenceClassification, options.data.empty() ? "--text" : "--data",
                 "a text classifier");
    logits = text_logits(module, options, texts);
  }
  Scores scores{.scoring = scoring_of(module)};
  scores.values = scores_of(logits, scores.scoring);
  const BaseConfig& config = module.config();
  for (int64_t i = 0; i < config.num_labels(); ++i) {
    const auto name = config.id2label.find(i);
    scores.labels.push_back(name == config.id2label.end() ? concat("LABEL_", i) : name->second);
  }
  return scores;
}

std::vector<std::string> read_rows(const ClassifyArguments& options) {
  if (options.data.empty()) return options.texts;
  const data::SourcePtr rows = data::open_dataset({.data_files = options.data}, {});
  std::vector<std::string> texts;
  for (int64_t i = 0; i < rows->size(); ++i) {
    const data::Row row{rows->row(i), rows.get(), i};
    const Json& text = data::field_of(row, options.text_field);
    require<FormatError>(text.is_string(), "[", row.place(), "] \"", options.text_field, "\" must be text; got ",
                         text.type_name(), ".");
    texts.push_back(text.as_string());
  }
  return texts;
}

void run(const ClassifyArguments& options, World& world) {
  const std::vector<std::string> texts = read_rows(options);
  const std::shared_ptr<BaseModule> module = load(options.model);
  const at::NoGradGuard no_grad;
  const Scores scores = classify(*module, options, texts);
  if (world.rank() != 0) return;
  const auto& [kind, names] = !options.images.empty()   ? std::pair("image", options.images)
                              : !options.sounds.empty() ? std::pair("audio", options.sounds)
                                                        : std::pair("text", texts);
  const int64_t count = std::min<int64_t>(options.top_k, scores.values.size(1));
  const auto [values, places] = scores.values.to(at::kCPU, at::kDouble).topk(count, -1);
  Json all = Json::array();
  for (std::size_t row = 0; row < names.size(); ++row) {
    Json best = Json::array();
    if (!options.json) std::cout << names[row] << "\n";
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<int64_t>(row);
      const std::string& label = scores.labels[static_cast<std::size_t>(places[at][i].item<int64_t>())];
      const double value = values[at][i].item<double>();
      best.push_back(
          Json::object({{"label", label}, {scores.scoring == Scoring::None ? "score" : "probability", value}}));
      if (!options.json) std::cout << "  " << std::fixed << std::setprecision(4) << value << "  " << label << "\n";
    }
    all.push_back(Json::object({{kind, names[row]}, {"labels", best}}));
  }
  if (options.json) print_json(all);
}

}  // namespace

void add_classify_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("classify", "Classify images, texts or audio; images also zero-shot with CLIP or SigLIP");
  auto options = std::make_shared<ClassifyArguments>();
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  auto* inputs = command->add_option_group("Inputs", "exactly one kind");
  inputs->add_option("--image", options->images, "Image file: JPEG, PNG, WebP, GIF or BMP; can be repeated")
      ->type_name("FILE");
  inputs->add_option("--text", options->texts, "Text to classify; can be repeated")->type_name("TEXT");
  inputs->add_option("--data", options->data,
                     "File of texts to classify: lines of text, or JSONL, CSV or Parquet with the field --text-field");
  inputs->add_option("--audio", options->sounds, "Audio file: WAV, FLAC, Ogg or MP3; can be repeated")
      ->type_name("FILE");
  inputs->require_option(1);
  command->add_option("--text-field", options->text_field, "Field with the text in each row of --data")
      ->capture_default_str();
  command
      ->add_option("--label", options->labels,
                   "Label to choose from, for zero-shot classification with text-image models; can be repeated")
      ->type_name("TEXT");
  command->add_option("--top-k", options->top_k, "Number of labels to print for each input")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      help_examples({"classify google/vit-base-patch16-224 --image cat.jpg",
                     "classify openai/clip-vit-base-patch32 --image cat.jpg --label \"a cat\" --label \"a dog\"",
                     "classify textattack/bert-base-uncased-SST-2 --text \"I liked it.\" --top-k 1",
                     "classify textattack/bert-base-uncased-SST-2 --data reviews.jsonl --text-field review --json"}));
  command->callback([options, command] {
    require<UsageError>(command->count("--text-field") == 0 || !options->data.empty(), "--text-field needs --data.");
    require<UsageError>(options->top_k >= 1, "--top-k must be at least 1; got ", options->top_k, ".");
    on_ranks(options->model, [&](World& world) { run(*options, world); });
  });
}

}  // namespace easydel::cli
