// Process reward modelling: a classifier of tokens learns at the end of each step whether the step is right
// (https://huggingface.co/papers/2211.14275).
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/stepwise.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

class PrmObjective final : public Objective {
 public:
  TaskType task() const override { return TaskType::TokenClassification; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return data::make_stepwise_transform(tokenizer, {.step_separator = arguments.prm.step_separator,
                                                     .max_length = arguments.max_length,
                                                     .max_completion_length = arguments.prm.max_completion_length,
                                                     .last_step_only = arguments.prm.train_on_last_step_only,
                                                     .keep_end = arguments.truncation_mode == "keep_end"});
  }
  std::vector<BatchRow> rows(const data::Example& example) const override {
    return {{.input_ids = example.input_ids, .labels = example.labels}};
  }
  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows)
      count += static_cast<double>(
          std::count_if(row.labels.begin(), row.labels.end(), [](int64_t label) { return label != data::kNoLoss; }));
    return count;
  }

  void prepare(const BaseModule& model, const TrainingArguments&, const ObjectiveData&) override {
    require<ConfigError>(model.config().num_labels() == 2,
                         "[prm] num_labels must be 2, for right and wrong steps; got ", model.config().num_labels(),
                         ".");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    ModelInputs inputs = batch.inputs();
    const LossConfig config = context.arguments.loss();
    inputs.loss_config = config;
    inputs.loss_config->auxiliary_loss_coefficient = 0.0;  // added below, as the share of the step that it is
    if (!context.arguments.prm.disable_dropout) inputs.dropout_key = context.dropout_key;
    if (wants_router_loss(context.arguments)) inputs.output_router_logits = true;
    const ModelOutput out = model(inputs);
    ObjectiveLoss result{.loss = out.loss * context.share};
    add_router_loss(result, model, config, inputs.attention_mask, out, context.share);
    if (out.metrics.accuracy.defined()) result.metrics["accuracy"] = out.metrics.accuracy * context.share;
    return result;
  }
};

}  // namespace

std::unique_ptr<Objective> make_prm_objective() { return std::make_unique<PrmObjective>(); }

}  // namespace easydel
