// What a whole row is: a class, several, or a number. Rows are texts or images.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/media.h"
#include "easydel/data/rows/sft.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/processors/image_processor.h"
#include "easydel/trainers/arguments/argument_checker.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

void read_label(const data::Row& row, const std::string& label, data::Example& example) {
  const Json& value = data::field_of(row, label);
  const auto add = [&](const Json& number, std::size_t index) {
    require<FormatError>(number.is_number(), "[", row.place(), "] \"", label,
                         "\" must be a number or a list of numbers; got ", value.dump(), ".");
    example.numbers[concat("target", index)] = number.as_double();
  };
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) add(value.at(i), i);
  } else {
    add(value.is_bool() ? Json(value.as_bool() ? 1 : 0) : value, 0);
  }
}

class Classification : public Objective {
 public:
  std::vector<BatchRow> rows(const data::Example& example) const override {
    BatchRow row{.input_ids = example.input_ids};
    for (std::size_t i = 0; i < example.numbers.size(); ++i)
      row.targets.push_back(example.numbers.at(concat("target", i)));
    return {row};
  }

  double count_items(const std::vector<BatchRow>& rows) const override { return static_cast<double>(rows.size()); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const int64_t outputs = model.config().num_labels();
    require<ConfigError>(arguments.classification.num_labels.value_or(outputs) == outputs,
                         "[classification] num_labels is ", arguments.classification.num_labels.value_or(outputs),
                         "; the model has ", outputs, " outputs. Create the model with that num_labels.");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    ModelInputs inputs = inputs_of(batch);
    LossConfig config = context.arguments.loss();
    if (context.arguments.classification.problem_type)
      config.problem_type = context.arguments.classification.problem_type;
    inputs.loss_config = config;
    inputs.loss_config->auxiliary_loss_coefficient = 0.0;  // added below, as the share of the step that it is
    inputs.dropout_key = context.dropout_key;
    inputs.output_logits = true;
    if (wants_router_loss(context.arguments)) inputs.output_router_logits = true;
    ModelOutput out = model(inputs);
    ObjectiveLoss result{.loss = out.loss * context.share};
    add_router_loss(result, model, config, inputs.attention_mask, out, context.share);
    if (out.metrics.accuracy.defined()) result.metrics["accuracy"] = out.metrics.accuracy * context.share;
    return result;
  }

 protected:
  virtual ModelInputs inputs_of(const Batch& batch) const { return batch.inputs(); }
};

class TextClassification final : public Classification {
 public:
  TaskType task() const override { return TaskType::SequenceClassification; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    const KeyPlace where = [](std::string_view key) { return concat("[trainer] ", key); };
    ArgumentChecker(where).only(arguments.classification.image_field == ClassificationArguments().image_field,
                                "image_field", "not be given for a text classifier",
                                arguments.classification.image_field, "Set dataset_text_field.");
    data::TextCodec codec(tokenizer);
    return [codec, field = arguments.text.dataset_text_field.value_or("text"),
            label = arguments.classification.label_field, special = arguments.text.add_special_tokens.value_or(true),
            keep_end = arguments.truncation_mode == "keep_end",
            length = static_cast<std::size_t>(arguments.sequence_length())](const data::Row& row) {
      data::Example example;
      std::vector<int64_t>& ids = example.input_ids = codec.encode(data::text_of(row, field), special);
      if (ids.size() > length) {
        if (keep_end) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(length));
        ids.resize(length);
      }
      read_label(row, label, example);
      return std::optional(std::move(example));
    };
  }
};

class ImageClassification final : public Classification {
 public:
  explicit ImageClassification(ImageProcessor processor)
      : processor_(std::make_shared<const ImageProcessor>(std::move(processor))) {}

  TaskType task() const override { return TaskType::ImageClassification; }

  data::Transform transform(const AutoTokenizer&, const TrainingArguments& arguments) const override {
    refuse_keys_of_texts(arguments);
    return [processor = processor_, field = arguments.classification.image_field,
            label = arguments.classification.label_field](const data::Row& row) {
      data::Example example;
      const std::string bytes = data::media_bytes(row, data::field_of(row, field), field);
      const at::Tensor pixels = (*processor)({processor->decode(bytes, concat(row.place(), ": \"", field, "\""))})[0];
      example.tensors["pixel_values"] = to_floats(pixels);
      read_label(row, label, example);
      return std::optional(std::move(example));
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    std::vector<BatchRow> rows = Classification::rows(example);
    rows[0].tensors["pixel_values"] = to_tensor(example.tensors.at("pixel_values"));
    return rows;
  }

 protected:
  ModelInputs inputs_of(const Batch& batch) const override {
    return {.labels = batch.labels, .pixel_values = batch.tensors.at("pixel_values")};
  }

 private:
  static void refuse_keys_of_texts(const TrainingArguments& arguments) {
    const KeyPlace where = [](std::string_view key) { return concat("[trainer] ", key); };
    const ArgumentChecker c(where);
    constexpr std::string_view kNoText = "Its rows contain images: set image_field.";
    const std::string must = "not be given for an image classifier";
    c.only(arguments.text.dataset_text_field.value_or("text") == "text", "dataset_text_field", must,
           arguments.text.dataset_text_field.value_or(""), kNoText);
    c.only(!arguments.text.add_special_tokens, "add_special_tokens", must,
           arguments.text.add_special_tokens.value_or(false) ? "true" : "false", kNoText);
    c.only(!arguments.max_length, "max_length", must, arguments.max_length.value_or(0), kNoText);
    c.only(arguments.neftune_noise_alpha.value_or(0) == 0, "neftune_noise_alpha", must,
           arguments.neftune_noise_alpha.value_or(0), "It adds noise to token embeddings.");
  }

  std::shared_ptr<const ImageProcessor> processor_;
};

}  // namespace

std::unique_ptr<Objective> make_classification_objective() { return std::make_unique<TextClassification>(); }

std::unique_ptr<Objective> make_image_classification_objective(ImageProcessor processor) {
  return std::make_unique<ImageClassification>(std::move(processor));
}

}  // namespace easydel
