// The next token: plain pretraining and supervised fine-tuning.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/sft.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/loss.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {

namespace {

class CausalLMObjective final : public Objective {
 public:
  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    const TextArguments& text = arguments.text;
    require<NotSupportedError>(
        text.freeze_vision_tower,
        "[trainer] freeze_vision_tower must be true for a text model; got false. It has no vision tower.");
    require<NotSupportedError>(
        text.mask_image_tokens,
        "[trainer] mask_image_tokens must be true for a text model; got false. It has no image tokens.");
    data::SftOptions options;
    options.dataset_text_field = text.dataset_text_field.value_or("text");
    // What packing cuts into pieces is not truncated first.
    if (!text.packing || text.packing_strategy == "bfd") options.max_length = arguments.sequence_length();
    options.truncation_mode = arguments.truncation_mode;
    options.completion_only_loss = text.counts_completions_alone();
    options.assistant_only_loss = text.assistant_only_loss;
    options.train_on_inputs = text.train_on_inputs.value_or(true);
    options.add_special_tokens = text.add_special_tokens;
    return data::make_sft_transform(tokenizer, options);
  }

  bool packs(const TrainingArguments& arguments) const override { return arguments.text.packing; }
  bool joins_rows(const TrainingArguments& arguments) const override { return arguments.text.padding_free; }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    return {{.input_ids = example.input_ids,
             .labels = example.labels,
             .segment_ids = example.segment_ids,
             .position_ids = example.position_ids}};
  }

  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows) count += count_targets(row);
    return count;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    ModelInputs inputs = batch.inputs();
    if (batch.host_labels.defined() && !model.parallel()) inputs.labels = batch.host_labels;
    return language_model_loss(model, std::move(inputs), context);
  }
};

}  // namespace

ObjectiveLoss language_model_loss(const BaseModule& model, ModelInputs inputs, const LossContext& context) {
  LossConfig config = context.arguments.loss();
  const bool is_weighted = context.arguments.text.loss_type == "dft";
  config.num_items_in_batch = context.items;
  if (is_weighted) config.reduction = "none";
  // Labels that are on the CPU beside a model on a GPU tell which tokens count without waiting for it; segments are
  // there, too.
  if (config.shift_tokens && inputs.labels.defined() && inputs.labels.device() != model.options().device &&
      inputs.labels.is_cpu()) {
    inputs.labels = lm_targets(inputs.labels, inputs.segment_ids, config);
    config.shift_tokens = false;
  }
  inputs.loss_config = config;
  inputs.loss_config->auxiliary_loss_coefficient = 0.0;  // added below, as the share of the step that it is
  inputs.dropout_key = context.dropout_key;
  if (wants_router_loss(context.arguments)) inputs.output_router_logits = true;
  ModelOutput out = model(inputs);
  // A token's loss times its probability, which is held fixed (dynamic fine-tuning).
  ObjectiveLoss result{.loss = is_weighted ? (out.loss * at::exp(-out.loss.detach())).sum() / context.items : out.loss};
  if (out.metrics.accuracy.defined()) result.metrics["accuracy"] = out.metrics.accuracy * context.share;
  add_router_loss(result, model, config, inputs.attention_mask, out, context.share);
  return result;
}

std::unique_ptr<Objective> make_causal_lm_objective() { return std::make_unique<CausalLMObjective>(); }

}  // namespace easydel
