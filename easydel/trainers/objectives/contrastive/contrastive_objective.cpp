// Texts and the images that they belong to, near each other in one space: the loss of CLIP and of SigLIP.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/media.h"
#include "easydel/data/rows/row_ids.h"
#include "easydel/processors/image_processor.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

int64_t padding_of(const AutoTokenizer& tokenizer) {
  const auto token = tokenizer.config().special_token("pad_token");
  const auto id = token ? tokenizer->token_to_id(*token) : std::nullopt;
  require<ConfigError>(id.has_value(), "[contrastive] texts are padded: the tokenizer needs a pad_token; got none.");
  return *id;
}

class ContrastiveObjective final : public Objective {
 public:
  ContrastiveObjective(ImageProcessor processor, int64_t longest)
      : processor_(std::make_shared<const ImageProcessor>(std::move(processor))), longest_(longest) {}

  TaskType task() const override { return TaskType::ZeroShotImageClassification; }

  // Every text is as long as the model takes, padding included, as these models are trained: SigLIP's last token, be it
  // padding or not, speaks for a text.
  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    const int64_t length = arguments.max_length.value_or(longest_);
    require<ConfigError>(length <= longest_, "[trainer] max_length must not be above ", longest_,
                         ", the tokens that the model takes; got ", length, ".");
    return [codec = data::TextCodec(tokenizer), processor = processor_, pad = padding_of(tokenizer),
            text = arguments.text.dataset_text_field.value_or("text"), image = arguments.classification.image_field,
            limit = data::TextLimit{.tokens = length, .keeps_end = arguments.truncation_mode == "keep_end"}](
               const data::Row& row) {
      data::Example example;
      example.input_ids = data::encode_within(codec, data::text_of(row, text), true, limit);
      example.input_ids.resize(static_cast<std::size_t>(*limit.tokens), pad);
      const std::string bytes = data::media_bytes(row, data::field_of(row, image), image);
      const at::Tensor pixels = (*processor)({processor->decode(bytes, concat(row.place(), ": \"", image, "\""))})[0];
      example.tensors["pixel_values"] = to_floats(pixels);
      return std::optional(std::move(example));
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    BatchRow row{.input_ids = example.input_ids};
    row.tensors["pixel_values"] = to_tensor(example.tensors.at("pixel_values"));
    return {row};
  }

  double count_items(const std::vector<BatchRow>& rows) const override { return static_cast<double>(rows.size()); }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const ModelOutput out = model({.input_ids = batch.input_ids,
                                   .dropout_key = context.dropout_key,
                                   .pixel_values = batch.tensors.at("pixel_values"),
                                   .return_loss = true});
    const at::Tensor chosen = out.logits_per_text.detach().argmax(-1);
    const at::Tensor right = chosen.eq(at::arange(chosen.size(0), chosen.options())).to(at::kDouble).mean();
    return {.loss = out.loss * context.share, .metrics = {{"contrastive_accuracy", right * context.share}}};
  }

 private:
  std::shared_ptr<const ImageProcessor> processor_;
  int64_t longest_;
};

}  // namespace

std::unique_ptr<Objective> make_contrastive_objective(ImageProcessor processor, const BaseConfig& config) {
  return std::make_unique<ContrastiveObjective>(std::move(processor), config.max_position_embeddings);
}

}  // namespace easydel
