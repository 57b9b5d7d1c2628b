// Two completions of each prompt, and which of them the rewards prefer. online_dpo: both are the policy's
// (https://huggingface.co/papers/2402.04792). xpo: the second one is the reference's, and its likelihood is lowered a
// little (https://huggingface.co/papers/2405.21046). nash_md: the second one is of a mixture of both, and the policy
// learns to be preferred to it (https://huggingface.co/papers/2312.00886). The losses are trl's.
#include "easydel/trainers/objectives/online/online_objective.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/pairs.h"
#include "easydel/trainers/objectives/policy_logps.h"
#include "easydel/trainers/objectives/reference/reference.h"
#include "easydel/trainers/rollouts/completion_log.h"
#include "easydel/trainers/rollouts/completion_rows.h"
#include "easydel/trainers/rollouts/completion_scores.h"
#include "easydel/trainers/rollouts/mixture_rollouts.h"
#include "easydel/trainers/rollouts/prompt_deal.h"

namespace easydel {
namespace {

// Of the two rewards of a prompt. A completion without a reward loses; without any there is no preference.
struct Verdict {
  bool is_judged = false, first_wins = false;
  double margin = 0, probability = 0.5;  // of the first one to be preferred
};

Verdict verdict_of(double first, double second) {
  if (std::isnan(first) && std::isnan(second)) return {};
  if (std::isnan(first) || std::isnan(second)) {
    const bool first_wins = std::isnan(second);
    return {.is_judged = true, .first_wins = first_wins, .margin = 0, .probability = first_wins ? 1.0 : 0.0};
  }
  return {.is_judged = true,
          .first_wins = first >= second,
          .margin = std::abs(first - second),
          .probability = 1 / (1 + std::exp(second - first))};
}

// Completions of the opponent, which are the second ones of their prompts.
class SecondCompletions final : public CompletionSink {
 public:
  explicit SecondCompletions(CompletionSink& to) : to_(to) {}
  void take(std::size_t prompt, std::size_t index, const Completion& completion) override {
    to_.take(prompt, index + 1, completion);
  }
  bool has_failed() const override { return to_.has_failed(); }
  void check() const override { to_.check(); }

 private:
  CompletionSink& to_;
};

class OnlineObjective final : public Objective {
 public:
  OnlineObjective(std::string type, PolicyParts parts) : type_(std::move(type)), parts_(std::move(parts)) {}

  int64_t rows_per_example(const TrainingArguments&) const override { return has_pairs() ? 2 : 1; }
  int64_t steps_of_generation(const TrainingArguments& arguments) const override {
    return arguments.rollout.steps_of_generation();
  }
  std::vector<const BaseModule*> other_models() const override {
    return parts_.reference ? std::vector<const BaseModule*>{parts_.reference.get()} : std::vector<const BaseModule*>();
  }
  bool runs_base() const override { return !parts_.reference; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return data::make_prompt_transform(
        tokenizer,
        {.codec = {}, .max_length = arguments.rollout.max_prompt_length, .truncation_mode = arguments.truncation_mode});
  }
  std::vector<BatchRow> rows(const data::Example&) const override { return {}; }
  double count_items(const std::vector<BatchRow>& rows) const override {
    return has_pairs() ? count_pairs(rows) : 2 * count_pairs(rows);
  }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const RolloutArguments& rollout = arguments.rollout;
    scores_ =
        CompletionScores(type_, rollout.rewards, rollout, {.model = parts_.reward_model}, parts_.reward_functions);
    require_reference(parts_.reference.get(), model, type_);
    require_room(model, rollout, type_);
    require<NotSupportedError>(
        type_ != "nash_md" || parts_.opponent_rollouts || !model.parallel() || model.parallel()->is_single(),
        "[nash_md] sampling from a mixture of two models is not supported on a mesh. Use one device, or xpo.");
  }

  GeneratedRows generate(const std::shared_ptr<BaseModule>& model,
                         const std::vector<std::vector<data::Example>>& batches,
                         const GenerationContext& context) override {
    const RolloutArguments& rollout = context.arguments.rollout;
    const Parallel* parallel = model->parallel().get();
    const at::Device device = context.batch.device;
    const PromptDeal deal(batches, context, parallel);
    const std::vector<Prompt> prompts = gather_prompts(batches, deal, parallel, device);
    PendingScores pending = scores_.begin(prompts, 2, context.tokenizer, parallel);
    const RolloutResult rolled = roll_out(model, prompts, context, pending);
    const ScoredCompletions scored = scores_.finish(pending, rolled, parallel, device);
    const std::vector<RewardScores>& scores = scored.of_rewards;

    GeneratedRows out;
    scores_.add_metrics(out.metrics, rolled, scored);
    std::vector<double> rewards = scores_.combined(scores);
    if (const auto& penalty = context.arguments.online.missing_eos_penalty) {
      for (std::size_t i = 0; i < rewards.size(); ++i) {
        if (rolled.completions[i / 2][i % 2].is_truncated) rewards[i] -= *penalty;
      }
    }
    std::vector<Verdict> verdicts;
    double margins = 0;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      verdicts.push_back(verdict_of(rewards[2 * p], rewards[2 * p + 1]));
      margins += verdicts.back().margin / static_cast<double>(prompts.size());
    }
    out.metrics["objective/scores_margin"] = margins;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      std::vector<BatchRow>& rows = out.steps.emplace_back();
      for (int64_t i = 0; i < static_cast<int64_t>(batches[b].size()); ++i) {
        const std::size_t at = deal.place(b, i);
        add_rows(rows, prompts[at], rolled.completions[at], verdicts[at], rollout);
      }
    }
    add_reference_logps(out, parts_.reference.get(), *model, context, kTemperature);
    if (rollout.log_completions && !context.is_evaluation && (!parallel || parallel->mesh().rank() == 0)) {
      std::vector<LoggedCompletion> logged;
      for (std::size_t i = 0; i < rewards.size(); ++i) {
        const Verdict& verdict = verdicts[i / 2];
        const double share = i % 2 == 0 ? verdict.probability : 1 - verdict.probability;
        logged.push_back({.prompt = text_of(context.tokenizer, prompts[i / 2].ids),
                          .completion = rolled.completions[i / 2][i % 2].text,
                          .rewards = scores_.by_name(scores, i),
                          .reward = rewards[i],
                          .advantage = share - 0.5});
      }
      log_completions(logged, context.step, context.arguments);
    }
    return out;
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const bool drops = context.dropout_key && !context.arguments.rollout.disable_dropout;
    const PolicyLogps policy = policy_logps(model, batch, context, kTemperature, drops);
    const at::Tensor mask = batch.series.at("mask").to(policy.tokens.scalar_type());
    const at::Tensor tokens = policy.tokens * mask;
    const at::Tensor reference = batch.series.at("reference_logps").to(policy.tokens.scalar_type()) * mask;
    ObjectiveLoss out = has_pairs() ? pair_loss_of(batch, tokens.sum(1), reference.sum(1), context)
                                    : mixture_loss_of(batch, tokens, reference, context);
    if (policy.routers.loss.defined()) {
      out.loss = out.loss + policy.routers.loss;
      out.metrics.insert(policy.routers.metrics.begin(), policy.routers.metrics.end());
    }
    return out;
  }

 private:
  static constexpr double kTemperature = 1.0;  // of the loss, whatever that of the sampling is

  bool has_pairs() const { return type_ != "nash_md"; }

  // Two of each prompt, the policy's first.
  RolloutResult roll_out(const std::shared_ptr<BaseModule>& model, const std::vector<Prompt>& prompts,
                         const GenerationContext& context, PendingScores& pending) {
    const RolloutArguments& rollout = context.arguments.rollout;
    std::vector<std::vector<int64_t>> ids;
    for (const Prompt& prompt : prompts) ids.push_back(prompt.ids);
    const RandomKey key = rollout_key(context);
    if (!parts_.rollouts) parts_.rollouts = make_rollouts(model, context.tokenizer, rollout);
    if (type_ == "online_dpo") return parts_.rollouts(ids, 2, key, &pending);
    RolloutResult rolled = parts_.rollouts(ids, 1, key, &pending);
    if (!parts_.opponent_rollouts) parts_.opponent_rollouts = make_opponent(model, context);
    SecondCompletions second(pending);
    RolloutResult others = parts_.opponent_rollouts(ids, 1, key.fold("opponent"), &second);
    for (std::size_t p = 0; p < ids.size(); ++p)
      rolled.completions[p].push_back(std::move(others.completions[p].front()));
    rolled.prefilled_tokens += others.prefilled_tokens;
    rolled.prompt_tokens += others.prompt_tokens;
    return rolled;
  }

  RolloutFunction make_opponent(const std::shared_ptr<BaseModule>& model, const GenerationContext& context) const {
    const RolloutArguments& rollout = context.arguments.rollout;
    if (type_ == "nash_md") {
      return make_mixture_rollouts(model, parts_.reference, context.arguments.online.mixture_coef, context.tokenizer,
                                   rollout);
    }
    // The engine reads the reference's weights; its interface is that of a model that may change.
    if (parts_.reference)
      return make_rollouts(std::const_pointer_cast<BaseModule>(parts_.reference), context.tokenizer, rollout);
    return [model, base = make_rollouts(model, context.tokenizer, rollout)](
               const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey& key,
               CompletionSink* sink) {
      const WithoutAdapters off(*model);
      return base(prompts, group, key, sink);
    };
  }

  void add_rows(std::vector<BatchRow>& rows, const Prompt& prompt, const std::vector<Completion>& completions,
                const Verdict& verdict, const RolloutArguments& rollout) const {
    if (!has_pairs()) {
      rows.push_back(completion_row(prompt.ids, completions[0], rollout));
      rows.back().numbers["probability"] = verdict.probability;
      return;
    }
    const std::size_t chosen = verdict.first_wins ? 0 : 1;
    for (const std::size_t index : {chosen, 1 - chosen}) {
      BatchRow& row = rows.emplace_back(completion_row(prompt.ids, completions[index], rollout));
      row.numbers["judged"] = verdict.is_judged ? 1 : 0;
      row.numbers["by_opponent"] = index == 1 ? 1 : 0;
    }
  }

  // logps and reference [2P].
  ObjectiveLoss pair_loss_of(const Batch& batch, const at::Tensor& logps, const at::Tensor& reference,
                             const LossContext& context) const {
    const OnlineArguments& online = context.arguments.online;
    const PairMean mean(batch, context, logps);
    const ByAnswer answers = by_answer(logps), ratios = by_answer(logps - reference);
    const at::Tensor logits = ratios.chosen - ratios.rejected;
    const at::Tensor preferences =
        online.loss_type == "ipo" ? at::square(logits - 1 / (2 * online.beta)) : -at::log_sigmoid(online.beta * logits);
    ObjectiveLoss out{.loss = mean(preferences * by_answer(number_like(batch, "judged", logps)).chosen), .metrics = {}};
    if (type_ == "xpo") {
      const ByAnswer theirs = by_answer(logps * number_like(batch, "by_opponent", logps));
      const at::Tensor exploration = mean(online.alpha * (theirs.chosen + theirs.rejected));
      out.metrics["loss/dpo"] = out.loss.detach();
      out.metrics["loss/xpo"] = exploration.detach();
      out.loss = out.loss + exploration;
    }
    out.metrics["logps/chosen"] = mean(answers.chosen.detach());
    out.metrics["logps/rejected"] = mean(answers.rejected.detach());
    out.metrics["objective/kl"] = mean((ratios.chosen + ratios.rejected).detach() / 2);
    add_reward_metrics(online.beta * ratios.chosen, online.beta * ratios.rejected, mean, out.metrics);
    return out;
  }

  // tokens and reference [rows, T]. Both parts are of REINFORCE, with 0.5 as the baseline of the preference.
  static ObjectiveLoss mixture_loss_of(const Batch& batch, const at::Tensor& tokens, const at::Tensor& reference,
                                       const LossContext& context) {
    const at::Tensor weights = number_like(batch, "counts", tokens) / context.items;
    const at::Tensor probability = number_like(batch, "probability", tokens);
    const at::Tensor score = (probability - 0.5) * tokens.sum(1);
    const at::Tensor apart = (tokens - reference).detach();
    const at::Tensor each = context.arguments.online.beta * (apart * tokens).sum(1) - score;
    ObjectiveLoss out{.loss = (each * weights).sum(), .metrics = {}};
    out.metrics["loss/score"] = (score.detach() * weights).sum();
    out.metrics["loss/kl"] = (apart.sum(1) * weights).sum();
    out.metrics["rewards/probabilities"] = (probability * weights).sum();
    out.metrics["rewards/accuracies"] = (probability.gt(0.5) * weights).sum();
    return out;
  }

  std::string type_;
  PolicyParts parts_;
  CompletionScores scores_;
};

}  // namespace

std::unique_ptr<Objective> make_online_objective(const std::string& trainer_type, PolicyParts parts) {
  return std::make_unique<OnlineObjective>(trainer_type, std::move(parts));
}

}  // namespace easydel
