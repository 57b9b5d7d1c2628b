// Proximal policy optimization (https://huggingface.co/papers/1707.06347) of what the model writes itself: a value
// model expects what is still to come, and the rest of a reward is what a token is given credit for. The reward of a
// completion is its last token's; each token's is lowered by the divergence from the reference.
#include "easydel/trainers/objectives/ppo/ppo_objective.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/policy_logps.h"
#include "easydel/trainers/objectives/ppo/ppo_advantages.h"
#include "easydel/trainers/objectives/ppo/ppo_loss.h"
#include "easydel/trainers/objectives/ppo/token_values.h"
#include "easydel/trainers/objectives/reference/reference.h"
#include "easydel/trainers/objectives/unpaired.h"
#include "easydel/trainers/rollouts/completion_log.h"
#include "easydel/trainers/rollouts/completion_rows.h"
#include "easydel/trainers/rollouts/completion_scores.h"
#include "easydel/trainers/rollouts/prompt_deal.h"
#include "easydel/trainers/rollouts/tools/tool_use.h"

namespace easydel {
namespace {

class PpoObjective final : public Objective {
 public:
  explicit PpoObjective(PolicyParts parts) : parts_(std::move(parts)) {}

  int64_t rows_per_example(const TrainingArguments& arguments) const override {
    return arguments.rollout.num_return_sequences;
  }
  int64_t steps_of_generation(const TrainingArguments& arguments) const override {
    return arguments.rollout.steps_of_generation();
  }
  std::shared_ptr<BaseModule> trained_along() const override { return parts_.value_model; }
  std::vector<const BaseModule*> other_models() const override {
    return parts_.reference ? std::vector<const BaseModule*>{parts_.reference.get()} : std::vector<const BaseModule*>();
  }
  bool runs_base() const override { return runs_base_; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return policy_prompts(tokenizer, arguments);
  }
  std::vector<BatchRow> rows(const data::Example&) const override { return {}; }
  double count_items(const std::vector<BatchRow>& rows) const override { return count_rows(rows); }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const RolloutArguments& rollout = arguments.rollout;
    scores_ =
        CompletionScores("ppo", rollout.rewards, rollout, {.model = parts_.reward_model}, parts_.reward_functions);
    if (arguments.ppo.kl_coef == 0) parts_.reference = nullptr;
    if (arguments.ppo.kl_coef != 0) require_reference(parts_.reference.get(), model, "ppo", "kl_coef");
    runs_base_ = arguments.ppo.kl_coef != 0 && !parts_.reference;
    require_room(model, rollout, "ppo");
    require_value_model(parts_.value_model.get(), model, "ppo");
  }

  GeneratedRows generate(const std::shared_ptr<BaseModule>& model,
                         const std::vector<std::vector<data::Example>>& batches,
                         const GenerationContext& context) override {
    const RolloutArguments& rollout = context.arguments.rollout;
    const Parallel* parallel = model->parallel().get();
    const at::Device device = context.batch.device;
    const auto group = static_cast<std::size_t>(rollout.num_return_sequences);
    const PromptDeal deal(batches, context, parallel);
    const std::vector<Prompt> prompts = gather_prompts(batches, deal, parallel, device);
    PendingScores pending = scores_.begin(prompts, rollout.num_return_sequences, context.tokenizer, parallel);
    if (!parts_.rollouts) parts_.rollouts = make_policy_rollouts(model, context.tokenizer, rollout);
    std::vector<std::vector<int64_t>> ids;
    for (const Prompt& prompt : prompts) ids.push_back(prompt.ids);
    const RolloutResult rolled = parts_.rollouts(ids, rollout.num_return_sequences, rollout_key(context), &pending);
    const ScoredCompletions scored = scores_.finish(pending, rolled, parallel, device);
    const std::vector<RewardScores>& scores = scored.of_rewards;

    GeneratedRows out;
    scores_.add_metrics(out.metrics, rolled, scored);
    std::vector<double> rewards = scores_.combined(scores);
    if (const auto& penalty = context.arguments.ppo.missing_eos_penalty) {
      for (std::size_t i = 0; i < rewards.size(); ++i) {
        if (rolled.completions[i / group][i % group].is_truncated) rewards[i] -= *penalty;
      }
    }
    std::vector<double> own_rewards;  // of the rows, in their order
    for (std::size_t b = 0; b < batches.size(); ++b) {
      std::vector<BatchRow>& rows = out.steps.emplace_back();
      for (int64_t i = 0; i < static_cast<int64_t>(batches[b].size()); ++i) {
        const std::size_t at = deal.place(b, i);
        for (std::size_t k = 0; k < group; ++k) {
          rows.push_back(row_of(prompts[at].ids, rolled.completions[at][k], rollout, rewards[at * group + k]));
          own_rewards.push_back(rewards[at * group + k]);
        }
      }
    }
    add_logps_series("old_logps", out, *model, *model, context, rollout.temperature);
    if (context.arguments.ppo.kl_coef != 0)
      add_reference_logps(out, parts_.reference.get(), *model, context, rollout.temperature);
    add_token_series("old_values", out, parallel, context,
                     [&](const Batch& batch) { return token_values(*parts_.value_model, batch, std::nullopt); });
    add_advantages(out, own_rewards, context, parallel);
    if (rollout.log_completions && !context.is_evaluation && (!parallel || parallel->mesh().rank() == 0)) {
      std::vector<LoggedCompletion> logged;
      for (std::size_t i = 0; i < rewards.size(); ++i) {
        logged.push_back({.prompt = text_of(context.tokenizer, prompts[i / group].ids),
                          .completion = rolled.completions[i / group][i % group].text,
                          .rewards = scores_.by_name(scores, i),
                          .reward = rewards[i],
                          .advantage = std::numeric_limits<double>::quiet_NaN()});
      }
      log_completions(logged, context.step, context.arguments);
    }
    return out;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const RolloutArguments& rollout = context.arguments.rollout;
    const PpoArguments& ppo = context.arguments.ppo;
    const bool drops = context.dropout_key && !rollout.disable_dropout;
    const PolicyLogps policy =
        policy_logps(model, batch, context, rollout.temperature, drops, ppo.entropy_coef.value_or(0) != 0);
    const at::Tensor values = token_values(*parts_.value_model, batch,
                                           drops ? std::optional(context.dropout_key->fold("value")) : std::nullopt);
    const auto series = [&](const std::string& name) { return batch.series.at(name).to(policy.tokens.scalar_type()); };
    const PpoTerms terms{.logps = policy.tokens,
                         .old_logps = series("old_logps"),
                         .entropies = policy.entropies,
                         .values = values,
                         .old_values = series("old_values"),
                         .advantages = series("advantages"),
                         .returns = series("returns"),
                         .mask = series("mask")};
    const double tokens = context.totals.at("tokens");
    PpoLoss found = ppo_loss(terms, ppo, tokens);
    ObjectiveLoss out{.loss = found.loss, .metrics = std::move(found.metrics)};
    if (batch.series.contains("sampling_logps")) {
      const at::Tensor apart = ((series("sampling_logps") - terms.old_logps).abs() * terms.mask).sum();
      out.metrics["sampling_logp_difference"] = apart / std::max(tokens, 1.0);
    }
    if (policy.routers.loss.defined()) {
      out.loss = out.loss + policy.routers.loss;
      out.metrics.insert(policy.routers.metrics.begin(), policy.routers.metrics.end());
    }
    return out;
  }

 private:
  // A completion that nothing judged counts in nothing.
  static BatchRow row_of(const std::vector<int64_t>& prompt, const Completion& completion,
                         const RolloutArguments& rollout, double reward) {
    BatchRow row = completion_row(prompt, completion, rollout);
    if (!std::isnan(reward)) return row;
    row.labels.assign(row.labels.size(), data::kNoLoss);
    row.series["mask"].assign(row.series["mask"].size(), 0);
    row.numbers["tokens"] = 0;
    return row;
  }

  // The series "advantages" and "returns", and the metrics of the generation.
  void add_advantages(GeneratedRows& generated, const std::vector<double>& rewards, const GenerationContext& context,
                      const Parallel* parallel) const {
    const PpoArguments& ppo = context.arguments.ppo;
    const SumOverRanks sum = [&](std::vector<double> values) {
      return sum_over_batch(std::move(values), parallel, context.batch.device);
    };
    std::vector<PpoTokens> completions;  // tokens that count: tools wrote the others
    double divergence = 0, surprise = 0, score = 0, judged = 0;
    std::size_t next = 0;
    for (const std::vector<BatchRow>& rows : generated.steps) {
      for (const BatchRow& row : rows) {
        PpoTokens& each = completions.emplace_back();
        const std::vector<double>& mask = row.series.at("mask");
        for (std::size_t t = 0; t < mask.size(); ++t) {
          if (mask[t] == 0) continue;
          const double logp = row.series.at("old_logps")[t];
          const double kl =
              ppo.kl_coef == 0 ? 0 : ppo_divergence(logp, row.series.at("reference_logps")[t], ppo.kl_estimator);
          each.rewards.push_back(-ppo.kl_coef * kl);
          each.values.push_back(row.series.at("old_values")[t]);
          divergence += kl;
          surprise -= logp;
        }
        const double reward = rewards[next++];
        if (each.rewards.empty()) continue;
        each.rewards.back() += reward;
        score += reward;
        ++judged;
      }
    }
    estimate_advantages(completions, ppo, sum);
    next = 0;
    for (std::vector<BatchRow>& rows : generated.steps) {
      for (BatchRow& row : rows) {
        const PpoTokens& each = completions[next++];
        const std::vector<double>& mask = row.series.at("mask");
        for (const auto& [name, values] :
             {std::pair{"advantages", &each.advantages}, std::pair{"returns", &each.returns}}) {
          std::vector<double> series(mask.size(), 0);
          std::size_t token = 0;
          for (std::size_t t = 0; t < mask.size(); ++t) {
            if (mask[t] != 0) series[t] = (*values)[token++];
          }
          row.series[name] = std::move(series);
        }
      }
    }
    const std::vector<double> sums = sum({divergence, surprise, score, judged});
    const double count = std::max(sums[3], 1.0);
    generated.metrics["objective/kl"] = sums[0] / count;
    generated.metrics["objective/entropy"] = sums[1] / count;
    generated.metrics["objective/scores"] = sums[2] / count;
    generated.metrics["objective/non_score_reward"] = -ppo.kl_coef * sums[0] / count;
    generated.metrics["objective/rlhf_reward"] = (sums[2] - ppo.kl_coef * sums[0]) / count;
  }

  PolicyParts parts_;
  CompletionScores scores_;
  bool runs_base_ = false;
};

}  // namespace

std::unique_ptr<Objective> make_ppo_objective(PolicyParts parts) {
  return std::make_unique<PpoObjective>(std::move(parts));
}

}  // namespace easydel
