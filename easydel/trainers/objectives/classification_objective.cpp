// What a whole row is: a class, several, or a number.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/sft.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

class ClassificationObjective final : public Objective {
 public:
  TaskType task() const override { return TaskType::SequenceClassification; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
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
      return std::optional(std::move(example));
    };
  }

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
    ModelInputs inputs = batch.inputs();
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
};

}  // namespace

std::unique_ptr<Objective> make_classification_objective() { return std::make_unique<ClassificationObjective>(); }

}  // namespace easydel
