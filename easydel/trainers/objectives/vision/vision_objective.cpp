// What a decoder that sees writes about images.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/media.h"
#include "easydel/data/rows/vision.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/trainers/arguments/argument_checker.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

void refuse_keys_of_texts(const TrainingArguments& arguments) {
  const KeyPlace where = [](std::string_view key) { return concat("[trainer] ", key); };
  const ArgumentChecker c(where);
  const TextArguments& text = arguments.text;
  constexpr std::string_view kRows = "Rows with images are padded.";
  c.only(!text.packing, "packing", "be false for a vision-language model", "true", kRows);
  c.only(!text.eval_packing.value_or(false), "eval_packing", "be false for a vision-language model", "true", kRows);
  c.only(!text.padding_free, "padding_free", "be false for a vision-language model", "true", kRows);
  constexpr std::string_view kMasks = "Use rows with a prompt and a completion, of which only the completion counts.";
  c.only(!text.assistant_only_loss, "assistant_only_loss", "be false for a vision-language model", "true", kMasks);
  c.only(text.train_on_inputs.value_or(true), "train_on_inputs", "be null or true for a vision-language model", "false",
         kMasks);
  c.only(text.dataset_text_field.value_or("text") == "text", "dataset_text_field",
         "not be given for a vision-language model", text.dataset_text_field.value_or(""),
         "It reads messages, or prompt and completion; format_fields renames columns.");
  c.only(arguments.neftune_noise_alpha.value_or(0) == 0, "neftune_noise_alpha",
         "be null or 0 for a vision-language model", arguments.neftune_noise_alpha.value_or(0),
         "NEFTune noise is defined for text embeddings.");
}

// Towers, and not what makes tokens of their features.
constexpr const char* kTowers = R"((vision_tower|vision_model|visual\.(patch_embed|pos_embed|blocks))\.)";

class VisionObjective final : public Objective {
 public:
  explicit VisionObjective(VisionProcessor processor)
      : processor_(std::make_shared<const VisionProcessor>(std::move(processor))) {}

  TaskType task() const override { return TaskType::ImageTextToText; }
  std::optional<std::string> frozen_by_default(const TrainingArguments& arguments) const override {
    return arguments.text.freeze_vision_tower ? std::optional<std::string>(kTowers) : std::nullopt;
  }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    refuse_keys_of_texts(arguments);
    const data::VisionRows read(tokenizer, {.limit = {.tokens = arguments.sequence_length(),
                                                      .keeps_end = arguments.truncation_mode == "keep_end"},
                                            .image_token = processor_->image_token(),
                                            .feature_token = processor_->feature_token(),
                                            .add_special_tokens = arguments.text.add_special_tokens.value_or(true),
                                            .completion_only_loss = arguments.text.counts_completions_alone(),
                                            .mask_image_tokens = arguments.text.mask_image_tokens});
    return [read, processor = processor_](const data::Row& row) -> std::optional<data::Example> {
      const ImageInputs images = read_images(row, *processor);
      data::Example example = read(row, images.texts.size(), [&](const std::string& text) {
        try {
          return processor->expand(text, images);
        } catch (const ConfigError& error) {
          fail<FormatError>("[", row.place(), "] ", error.what());
        }
      });
      for (const auto& [name, value] : {std::pair("pixel_values", images.pixel_values),
                                        {"image_sizes", images.image_sizes},
                                        {"pixel_attention_mask", images.pixel_attention_mask},
                                        {"image_grid_thw", images.image_grid_thw}}) {
        if (value.defined()) example.tensors[name] = to_floats(value);
      }
      BatchRow counted{.input_ids = example.input_ids, .labels = example.labels};
      return count_targets(counted) > 0 ? std::optional(std::move(example)) : std::nullopt;
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    BatchRow row{.input_ids = example.input_ids, .labels = example.labels};
    for (const auto& [name, values] : example.tensors) row.images[name] = to_tensor(values);
    return {row};
  }

  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows) count += count_targets(row);
    return count;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    ModelInputs inputs = batch.inputs();
    const auto* accepts = dynamic_cast<const AcceptsImages*>(&model);
    if (accepts && accepts->needs_whole_images())
      inputs.token_type_ids = batch.input_ids.eq(accepts->image_token_id()).to(at::kLong);
    return language_model_loss(model, std::move(inputs), context);
  }

 private:
  static ImageInputs read_images(const data::Row& row, const VisionProcessor& processor) {
    std::vector<at::Tensor> images;
    for (const Json& value : data::images_of(row)) {
      const std::string name = concat("image ", images.size() + 1);
      const std::string bytes = data::media_bytes(row, value, name);
      images.push_back(processor.image_processor().decode(bytes, concat(row.place(), ": ", name)));
    }
    return images.empty() ? ImageInputs() : processor(images);
  }

  std::shared_ptr<const VisionProcessor> processor_;
};

}  // namespace

std::unique_ptr<Objective> make_vision_objective(VisionProcessor processor) {
  return std::make_unique<VisionObjective>(std::move(processor));
}

}  // namespace easydel
