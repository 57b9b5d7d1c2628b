// Binary classifier optimization: the log-ratio of policy and reference, less the mean of all rewards so far, tells
// answers that are wanted from those that are not.
#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/trainers/objectives/unpaired.h"

namespace easydel {
namespace {

class BcoObjective final : public Objective {
 public:
  explicit BcoObjective(std::shared_ptr<const BaseModule> reference) : reference_(std::move(reference)) {
    require<ConfigError>(reference_ != nullptr, "[bco] a reference model is needed.");
  }

  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return arguments.bco.padding_value;
  }
  std::vector<const BaseModule*> other_models() const override { return {reference_.get()}; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return unpaired_answers("bco", tokenizer,
                            {.max_length = arguments.max_length,
                             .max_prompt_length = arguments.bco.max_prompt_length,
                             .max_completion_length = arguments.bco.max_completion_length,
                             .truncation_mode = arguments.truncation_mode});
  }
  std::vector<BatchRow> rows(const data::Example& example) const override { return {unpaired_row(example)}; }
  double count_items(const std::vector<BatchRow>& rows) const override { return count_rows(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    require_token(model, arguments.bco.padding_value, "[bco] padding_value");
    require_same_mesh(model, *reference_, "[bco] the reference");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const BcoArguments& bco = context.arguments.bco;
    const RowLogps policy = row_logps(model, batch, context, !bco.disable_dropout);
    const at::Tensor logps = policy.sums();
    const at::Tensor reference = [&] {
      const at::NoGradGuard no_grad;
      return row_logps(*reference_, batch, context, false).sums();
    }();
    const at::Tensor counts = number_like(batch, "counts", logps);
    const at::Tensor rewards = bco.beta * (logps - reference).masked_fill(counts.eq(0), 0);
    if (context.is_training) update(rewards.detach(), counts);
    const at::Tensor apart = rewards - mean_;
    const at::Tensor losses = at::log_sigmoid(apart) * number_like(batch, "wanted", logps) +
                              at::log_sigmoid(-apart) * number_like(batch, "unwanted", logps);
    ObjectiveLoss out{.loss = -losses.sum() / context.items};
    policy.add_routers(out);
    out.metrics["delta"] = at::scalar_tensor(mean_ * context.share, logps.options());
    add_unpaired_metrics(rewards, logps, batch, context, out.metrics);
    return out;
  }

  Json state() const override { return Json::object({{"mean", mean_}, {"count", count_}}); }
  void restore(const Json& saved) override {
    mean_ = saved.at("mean").as_double();
    count_ = saved.at("count").as_double();
  }

 private:
  // Rewards that are no numbers, of a step that is skipped, change nothing.
  void update(const at::Tensor& rewards, const at::Tensor& counts) const {
    const double sum = (rewards * counts).sum().item<double>(), rows = counts.sum().item<double>();
    if (rows == 0 || !std::isfinite(sum)) return;
    count_ += rows;
    mean_ += (sum / rows - mean_) * rows / count_;
  }

  std::shared_ptr<const BaseModule> reference_;
  mutable double mean_ = 0, count_ = 0;  // of the rewards of all steps so far
};

}  // namespace

std::unique_ptr<Objective> make_bco_objective(std::shared_ptr<const BaseModule> reference) {
  return std::make_unique<BcoObjective>(std::move(reference));
}

}  // namespace easydel
