// Reward modelling: a classifier with one output that ranks the chosen answer of a pair above the rejected one.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/trainers/objectives/pairs.h"

namespace easydel {
namespace {

class RewardObjective final : public Objective {
 public:
  TaskType task() const override { return TaskType::SequenceClassification; }
  int64_t rows_per_example(const TrainingArguments&) const override { return 2; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return data::make_reward_transform(
        tokenizer, {.codec = {}, .max_length = arguments.max_length, .truncation_mode = arguments.truncation_mode});
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    const auto margin = example.numbers.find("margin");
    std::vector<BatchRow> rows;
    for (const char* side : {"chosen_ids", "rejected_ids"}) {
      BatchRow row{.input_ids = example.others.at(side)};
      row.numbers = {{"counts", 1.0}, {"margin", margin == example.numbers.end() ? 0.0 : margin->second}};
      rows.push_back(std::move(row));
    }
    return rows;
  }

  double count_items(const std::vector<BatchRow>& rows) const override { return count_pairs(rows); }

  void prepare(const BaseModule& model, const TrainingArguments&, const ObjectiveData&) override {
    require<ConfigError>(model.config().num_labels() == 1,
                         "[reward] num_labels must be 1, since a reward is one number; got ",
                         model.config().num_labels(), ".");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const RewardArguments& reward = context.arguments.reward;
    ModelInputs inputs = batch.inputs();
    inputs.labels = at::Tensor();
    if (!reward.disable_dropout) inputs.dropout_key = context.dropout_key;
    if (wants_router_loss(context.arguments)) inputs.output_router_logits = true;
    const ModelOutput given = model(inputs);
    const at::Tensor logits = given.logits.squeeze(-1);
    const at::Tensor rewards = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
    const auto [chosen, rejected] = by_answer(rewards);
    const at::Tensor margin = by_answer(number_like(batch, "margin", rewards)).chosen;
    const PairMean mean(batch, context, rewards);
    ObjectiveLoss out{.loss = mean(-at::log_sigmoid(chosen - rejected - margin))};
    if (reward.center_rewards_coefficient)
      out.loss = out.loss + *reward.center_rewards_coefficient * mean((chosen + rejected).square());
    add_router_loss(out, model, context.arguments.loss(), inputs.attention_mask, given, context.share);
    out.metrics["accuracy"] = mean(chosen.gt(rejected));
    out.metrics["margin"] = mean((chosen - rejected).detach());
    out.metrics["mean_reward"] = mean((chosen + rejected).detach() / 2);
    return out;
  }
};

}  // namespace

std::unique_ptr<Objective> make_reward_objective() { return std::make_unique<RewardObjective>(); }

}  // namespace easydel
