// Odds ratio preference optimization: the likelihood of chosen texts, and the odds of chosen answers over rejected
// ones.
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/trainers/objectives/pairs.h"

namespace easydel {
namespace {

// log(1 - exp(x)) for x <= 0, on either side of -ln 2 in the form that keeps its digits.
at::Tensor log1mexp(const at::Tensor& x) {
  return at::where(x.lt(-0.6931471805599453), at::log1p(-at::exp(x)), at::log(-at::expm1(x)));
}

class OrpoObjective final : public Objective {
 public:
  int64_t rows_per_example(const TrainingArguments&) const override { return 2; }
  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return arguments.orpo.padding_value;
  }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return reference_free_pairs("orpo", tokenizer,
                                {.max_length = arguments.max_length,
                                 .max_prompt_length = arguments.orpo.max_prompt_length,
                                 .max_completion_length = arguments.orpo.max_completion_length,
                                 .truncation_mode = arguments.truncation_mode});
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    std::vector<BatchRow> rows = pair_rows(example);
    rows[0].labels = rows[0].input_ids;  // the likelihood is that of prompt and answer
    rows[0].numbers["nll_tokens"] = count_targets(rows[0]);
    return rows;
  }

  double count_items(const std::vector<BatchRow>& rows) const override { return count_pairs(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    require_token(model, arguments.orpo.padding_value, "[orpo] padding_value");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const OrpoArguments& orpo = context.arguments.orpo;
    const RowLogps policy = row_logps(model, batch, context, !orpo.disable_dropout);
    const at::Tensor& tokens = policy.tokens;
    const at::Tensor prompts = number_like(batch, "prompt_tokens", tokens);
    const at::Tensor targets = number_like(batch, "completion_tokens", tokens) - prompts.eq(0).to(tokens.scalar_type());
    const at::Tensor answers = at::arange(1, tokens.size(1) + 1, prompts.options()).ge(prompts.unsqueeze(1));
    const ByAnswer logps = by_answer((tokens * answers).sum(1) / targets.clamp_min(1));
    const at::Tensor log_odds = logps.chosen - logps.rejected - (log1mexp(logps.chosen) - log1mexp(logps.rejected));
    const at::Tensor ratio = at::log_sigmoid(log_odds);
    const at::Tensor nll = -by_answer(policy.sums()).chosen.sum() / std::max(context.totals.at("nll_tokens"), 1.0);
    const PairMean mean(batch, context, tokens);
    ObjectiveLoss out{.loss = nll - orpo.beta * mean(ratio)};
    policy.add_routers(out);
    add_reward_metrics(orpo.beta * logps.chosen, orpo.beta * logps.rejected, mean, out.metrics);
    out.metrics["logps/chosen"] = mean(logps.chosen.detach());
    out.metrics["logps/rejected"] = mean(logps.rejected.detach());
    out.metrics["nll_loss"] = nll.detach();
    out.metrics["log_odds_ratio"] = mean(ratio.detach());
    out.metrics["log_odds_chosen"] = mean(log_odds.detach());
    return out;
  }
};

}  // namespace

std::unique_ptr<Objective> make_orpo_objective() { return std::make_unique<OrpoObjective>(); }

}  // namespace easydel
