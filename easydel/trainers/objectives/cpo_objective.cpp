// Contrastive preference optimization: chosen answers likely, and likelier than rejected ones, without a reference.
// With means over tokens and a margin it is SimPO, and with another shape of the reward AlphaPO.
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/trainers/objectives/pairs.h"

namespace easydel {
namespace {

// What an answer is worth: its log-probability, or AlphaPO's function of it.
at::Tensor worth(const at::Tensor& logps, double alpha) {
  return alpha == 0 ? logps : (1 - at::exp(logps).pow(-alpha)) / alpha;
}

at::Tensor margin_loss(const at::Tensor& margin, const CpoArguments& cpo) {
  if (cpo.loss_type == "hinge") return at::relu(1 - cpo.beta * margin);
  if (cpo.loss_type == "ipo") return (margin - 1 / (2 * cpo.beta)).square();
  const at::Tensor scaled = cpo.beta * (cpo.is_simpo() ? margin - cpo.simpo_gamma / cpo.beta : margin);
  return -(1 - cpo.label_smoothing) * at::log_sigmoid(scaled) - cpo.label_smoothing * at::log_sigmoid(-scaled);
}

class CpoObjective final : public Objective {
 public:
  int64_t rows_per_example(const TrainingArguments&) const override { return 2; }
  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return arguments.cpo.padding_value;
  }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return reference_free_pairs("cpo", tokenizer,
                                {.max_length = arguments.max_length,
                                 .max_prompt_length = arguments.cpo.max_prompt_length,
                                 .max_completion_length = arguments.cpo.max_completion_length,
                                 .truncation_mode = arguments.truncation_mode});
  }

  std::vector<BatchRow> rows(const data::Example& example) const override { return pair_rows(example); }
  double count_items(const std::vector<BatchRow>& rows) const override { return count_pairs(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    require_token(model, arguments.cpo.padding_value, "[cpo] padding_value");
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const CpoArguments& cpo = context.arguments.cpo;
    const RowLogps policy = row_logps(model, batch, context, !cpo.disable_dropout);
    const at::Tensor sums = policy.sums();
    // The first token of a row is never predicted.
    const at::Tensor targets = number_like(batch, "completion_tokens", sums) -
                               number_like(batch, "prompt_tokens", sums).eq(0).to(sums.scalar_type());
    const bool has_means = cpo.is_simpo() || cpo.loss_type == "ipo";
    const ByAnswer logps = by_answer(has_means ? sums / targets.clamp_min(1) : sums);
    const ByAnswer worths{worth(logps.chosen, cpo.alpha), worth(logps.rejected, cpo.alpha)};
    const PairMean mean(batch, context, sums);
    const at::Tensor nll = -by_answer(sums).chosen.sum() / std::max(context.totals.at("nll_tokens"), 1.0);
    ObjectiveLoss out{.loss = mean(margin_loss(worths.chosen - worths.rejected, cpo))};
    if (cpo.likelihood_weight() != 0) {
      out.loss = out.loss + cpo.likelihood_weight() * nll;
      out.metrics["nll_loss"] = nll.detach();
    }
    policy.add_routers(out);
    add_reward_metrics(cpo.beta * worths.chosen, cpo.beta * worths.rejected, mean, out.metrics);
    out.metrics["logps/chosen"] = mean(logps.chosen.detach());
    out.metrics["logps/rejected"] = mean(logps.rejected.detach());
    return out;
  }
};

}  // namespace

std::unique_ptr<Objective> make_cpo_objective() { return std::make_unique<CpoObjective>(); }

}  // namespace easydel
