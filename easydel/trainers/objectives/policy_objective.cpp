#include "easydel/trainers/objectives/policy_objective.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/advantages.h"
#include "easydel/trainers/objectives/grpo_loss.h"
#include "easydel/trainers/objectives/online/online_objective.h"
#include "easydel/trainers/objectives/pairs.h"
#include "easydel/trainers/objectives/policy_logps.h"
#include "easydel/trainers/objectives/ppo/ppo_objective.h"
#include "easydel/trainers/objectives/reference/reference.h"
#include "easydel/trainers/rollouts/completion_log.h"
#include "easydel/trainers/rollouts/completion_rows.h"
#include "easydel/trainers/rollouts/completion_scores.h"
#include "easydel/trainers/rollouts/prompt_deal.h"
#include "easydel/trainers/rollouts/replay_buffer.h"
#include "easydel/trainers/rollouts/tools/tool_use.h"
#include "easydel/trainers/run/row_json.h"

namespace easydel {
namespace {

using Ids = std::vector<int64_t>;

void clip(std::vector<double>& rewards, double least, double most) {
  for (double& reward : rewards) {
    if (!std::isnan(reward)) reward = std::clamp(reward, least, most);
  }
}

class PolicyObjective final : public Objective {
 public:
  PolicyObjective(std::string type, PolicyParts parts) : type_(std::move(type)), parts_(std::move(parts)) {}

  int64_t rows_per_example(const TrainingArguments& arguments) const override {
    const int64_t all = arguments.rollout.num_return_sequences;
    return type_ == "gfpo" ? arguments.gfpo.num_remains_in_group.value_or(all) : all;
  }
  int64_t steps_of_generation(const TrainingArguments& arguments) const override {
    return arguments.rollout.steps_of_generation();
  }
  std::vector<const BaseModule*> other_models() const override {
    return parts_.reference ? std::vector<const BaseModule*>{parts_.reference.get()} : std::vector<const BaseModule*>();
  }
  bool runs_base() const override { return runs_base_; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return policy_prompts(tokenizer, arguments);
  }
  std::vector<BatchRow> rows(const data::Example&) const override { return {}; }

  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows) count += row.numbers.at("counts");
    return count;
  }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const RolloutArguments& rollout = arguments.rollout;
    scores_ = CompletionScores(type_, type_ == "rlvr" ? arguments.rlvr.rewards(rollout.rewards) : rollout.rewards,
                               rollout, {.model = parts_.reward_model}, parts_.reward_functions);
    if (beta(arguments) == 0) parts_.reference = nullptr;
    if (beta(arguments) != 0) require_reference(parts_.reference.get(), model, type_, "beta");
    runs_base_ = beta(arguments) != 0 && !parts_.reference;
    sync_ = type_ == "rloo" ? arguments.rloo.sync : arguments.grpo.sync;
    if (sync_.sync_ref_model) make_movable(parts_.reference, model, type_);
    require_room(model, rollout, type_);
  }

  GeneratedRows generate(const std::shared_ptr<BaseModule>& model,
                         const std::vector<std::vector<data::Example>>& batches,
                         const GenerationContext& context) override {
    const RolloutArguments& rollout = context.arguments.rollout;
    const Parallel* parallel = model->parallel().get();
    const at::Device device = context.batch.device;
    const int64_t group = rows_per_example(context.arguments);
    const PromptDeal deal(batches, context, parallel);
    const std::vector<Prompt> prompts = gather_prompts(batches, deal, parallel, device);

    PendingScores pending = scores_.begin(prompts, rollout.num_return_sequences, context.tokenizer, parallel);
    if (!parts_.rollouts) parts_.rollouts = make_policy_rollouts(model, context.tokenizer, rollout);
    std::vector<Ids> ids;
    for (const Prompt& prompt : prompts) ids.push_back(prompt.ids);
    RolloutResult rolled = parts_.rollouts(ids, rollout.num_return_sequences, rollout_key(context), &pending);
    ScoredCompletions scored = scores_.finish(pending, rolled, parallel, device);
    std::vector<RewardScores>& scores = scored.of_rewards;

    GeneratedRows out;
    scores_.add_metrics(out.metrics, rolled, scored);
    if (type_ == "gfpo") out.metrics["completions/kept_mean_length"] = filter(rolled, scores, context.arguments);
    for (std::size_t b = 0; b < batches.size(); ++b) {
      std::vector<BatchRow> rows;
      for (int64_t i = 0; i < static_cast<int64_t>(batches[b].size()); ++i) {
        const std::size_t at = deal.place(b, i);
        for (const Completion& completion : rolled.completions[at])
          rows.push_back(completion_row(prompts[at].ids, completion, rollout));
      }
      out.steps.push_back(std::move(rows));
    }
    add_logps(out, model, context);
    // Of all ranks: the rewards of a group, and the divergence that lowers them.
    std::vector<double> rewards = scores_.combined(scores);
    const std::vector<double> unscaled = rewards;
    const std::optional<double> most = context.arguments.rlvr.reward_clip_range;
    if (type_ == "rlvr" && most) clip(rewards, -*most, *most);
    if (type_ == "rloo") lower_by_divergence(rewards, out, deal, group, context, parallel);
    const Advantages advantages =
        type_ == "rloo" ? leave_one_out_advantages(rewards, group, context.arguments.rloo.normalize_advantages)
                        : group_advantages(rewards, group, context.arguments.grpo.scaling());
    double tokens = 0;
    for (const auto& completions : rolled.completions) {
      for (const Completion& each : completions) tokens += counted_tokens(each, rollout);
    }
    for (std::size_t b = 0; b < batches.size(); ++b) {
      for (std::size_t r = 0; r < out.steps[b].size(); ++r) {
        const auto local = static_cast<int64_t>(r);
        const std::size_t at =
            deal.place(b, local / group) * static_cast<std::size_t>(group) + static_cast<std::size_t>(local % group);
        out.steps[b][r].numbers["advantage"] = advantages.values[at];
      }
    }
    if (replays(context)) tokens += replay(out, rolled, rewards, advantages.values, deal, group, context, parallel);
    for (std::vector<BatchRow>& rows : out.steps) {
      for (BatchRow& row : rows) row.numbers["generation_tokens"] = tokens / static_cast<double>(batches.size());
    }
    out.metrics["frac_reward_zero_std"] = advantages.zero_deviation_share;
    if (rollout.log_completions && !context.is_evaluation && (!parallel || parallel->mesh().rank() == 0)) {
      std::vector<LoggedCompletion> logged;
      for (std::size_t i = 0; i < unscaled.size(); ++i) {
        const std::size_t p = i / static_cast<std::size_t>(group);
        LoggedCompletion each{.prompt = text_of(context.tokenizer, prompts[p].ids),
                              .completion = rolled.completions[p][i % static_cast<std::size_t>(group)].text,
                              .rewards = scores_.by_name(scores, i),
                              .reward = unscaled[i],
                              .advantage = advantages.values[i]};
        logged.push_back(std::move(each));
      }
      log_completions(logged, context.step, context.arguments);
    }
    return out;
  }

  void after_step(const BaseModule& model, int64_t step) override {
    if (sync_.is_due(step)) move_reference(parts_.reference, model, sync_.ref_model_mixup_alpha);
  }
  std::shared_ptr<const BaseModule> moving_reference() const override {
    return sync_.sync_ref_model ? parts_.reference : nullptr;
  }

  Json state() const override { return replays_.empty() ? Json() : Json::object({{"replay", replays_.to_json()}}); }
  void restore(const Json& saved) override {
    if (const Json* replay = saved.find("replay")) replays_.restore(*replay);
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const RolloutArguments& rollout = context.arguments.rollout;
    const PolicyLogps policy =
        policy_logps(model, batch, context, rollout.temperature, context.dropout_key && !rollout.disable_dropout);
    const at::Tensor& logps = policy.tokens;
    const auto series = [&](const std::string& name) {
      const auto found = batch.series.find(name);
      return found == batch.series.end() ? at::Tensor() : found->second.to(logps.scalar_type());
    };
    const at::Tensor mask = series("mask"), old = series("old_logps");
    const PolicyTerms terms{.logps = logps,
                            .old_logps = old.defined() ? old : logps.detach(),
                            .reference_logps = type_ == "rloo" ? at::Tensor() : series("reference_logps"),
                            .mask = mask,
                            .entropies = policy.entropies,
                            .advantages = number_like(batch, "advantage", logps)};
    const double tokens = context.totals.at("tokens");
    // The whole generation's tokens, divided among its steps, stand in every row.
    const PolicyDivisors divisors{.rows = context.items,
                                  .tokens = tokens,
                                  .generation_tokens = context.totals.at("generation_tokens") / context.items,
                                  .share = context.share,
                                  .max_completion_length = rollout.max_completion_length};
    PolicyLoss found = type_ == "rloo" ? rloo_loss(terms, context.arguments.rloo, divisors)
                                       : grpo_loss(terms, context.arguments.grpo, divisors);
    ObjectiveLoss out{.loss = found.loss, .metrics = std::move(found.metrics)};
    if (const at::Tensor sampled = series("sampling_logps"); sampled.defined()) {
      const at::Tensor apart = ((sampled - terms.old_logps.detach()).abs() * mask).sum();
      out.metrics["sampling_logp_difference"] = apart / std::max(tokens, 1.0);
    }
    if (policy.routers.loss.defined()) {
      out.loss = out.loss + policy.routers.loss;
      out.metrics.insert(policy.routers.metrics.begin(), policy.routers.metrics.end());
    }
    return out;
  }

 private:
  double beta(const TrainingArguments& arguments) const {
    return type_ == "rloo" ? arguments.rloo.beta : arguments.grpo.beta;
  }

  // Leaves the best completions of each group, with their scores; their mean length.
  double filter(RolloutResult& rolled, std::vector<RewardScores>& scores, const TrainingArguments& arguments) const {
    const RolloutArguments& rollout = arguments.rollout;
    const auto group = static_cast<std::size_t>(rollout.num_return_sequences);
    std::vector<double> lengths;
    for (const auto& completions : rolled.completions) {
      for (const Completion& each : completions) lengths.push_back(each.own_tokens());
    }
    const std::vector<std::size_t> chosen = filtered_groups(
        scores_.combined(scores), lengths, rollout.num_return_sequences, rollout.max_completion_length, arguments.gfpo);
    std::vector<std::vector<Completion>> completions(rolled.completions.size());
    std::vector<RewardScores> kept(scores.size());
    double tokens = 0;
    for (const std::size_t at : chosen) {
      completions[at / group].push_back(std::move(rolled.completions[at / group][at % group]));
      for (std::size_t k = 0; k < scores.size(); ++k) kept[k].push_back(scores[k][at]);
      tokens += lengths[at];
    }
    rolled.completions = std::move(completions);
    scores = std::move(kept);
    return tokens / static_cast<double>(chosen.size());
  }

  // What is fixed while a generation is trained on: the log-probabilities of the policy that wrote it, and of the
  // reference.
  void add_logps(GeneratedRows& generated, const std::shared_ptr<BaseModule>& model, const GenerationContext& context) {
    const bool has_divergence = beta(context.arguments) != 0;
    const bool needs_old = (!context.is_evaluation && context.arguments.rollout.steps_of_generation() > 1) ||
                           replays(context) || (type_ == "rloo" && has_divergence);
    const double temperature = context.arguments.rollout.temperature;
    if (needs_old) add_logps_series("old_logps", generated, *model, *model, context, temperature);
    if (has_divergence) add_reference_logps(generated, parts_.reference.get(), *model, context, temperature);
  }

  bool replays(const GenerationContext& context) const {
    return type_ != "rloo" && !context.is_evaluation && context.arguments.grpo.replay_buffer_size > 0;
  }

  // Keeps the groups whose rewards differ, and puts such ones, with the log-probabilities and advantages that they had,
  // in the place of groups whose rewards do not. How many more tokens the generation has. The same on any mesh.
  double replay(GeneratedRows& out, const RolloutResult& rolled, const std::vector<double>& rewards,
                const std::vector<double>& advantages, const PromptDeal& deal, int64_t group,
                const GenerationContext& context, const Parallel* parallel) {
    const auto size = static_cast<std::size_t>(group);
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> own;  // this rank's groups: their step and first row
    for (std::size_t b = 0; b < out.steps.size(); ++b) {
      for (std::size_t r = 0; r < out.steps[b].size(); r += size)
        own[deal.place(b, static_cast<int64_t>(r / size))] = {b, r};
    }
    const std::size_t count = rewards.size() / size;
    std::vector<double> scores(count, 0);
    std::vector<std::size_t> same;
    for (std::size_t g = 0; g < count; ++g) {
      const auto first = static_cast<std::ptrdiff_t>(g * size), end = first + group;
      const double deviation = deviation_of({rewards.begin() + first, rewards.begin() + end});
      if (std::isnan(deviation) || is_zero_deviation(deviation)) {
        same.push_back(g);
        continue;
      }
      for (auto a = advantages.begin() + first; a != advantages.begin() + end; ++a)
        scores[g] += std::abs(*a) * deviation;
    }
    const auto rows_of = [&](std::size_t g) {
      const auto [b, r] = own.at(g);
      const auto first = out.steps[b].begin() + static_cast<std::ptrdiff_t>(r);
      return std::vector<BatchRow>(first, first + group);
    };
    std::map<std::size_t, std::vector<BatchRow>> differing;
    if (deal.parts == 1) {
      for (std::size_t g = 0; g < count; ++g) {
        if (scores[g] > 0) differing[g] = rows_of(g);
      }
    } else {
      Json mine = Json::array();
      for (const auto& [g, place] : own) {
        if (!(scores[g] > 0)) continue;
        Json list = Json::array();
        for (const BatchRow& row : rows_of(g)) list.push_back(row_to_json(row));
        mine.push_back(Json::object({{"group", static_cast<int64_t>(g)}, {"rows", std::move(list)}}));
      }
      for (const std::string& text : gather_texts(mine.dump(), parallel, context.batch.device)) {
        const Json theirs = Json::parse(text);
        for (const Json& given : theirs.as_array()) {
          std::vector<BatchRow>& rows = differing[static_cast<std::size_t>(given.at("group").as_int())];
          for (const Json& row : given.at("rows").as_array()) rows.push_back(row_from_json(row));
        }
      }
    }
    for (auto& [g, rows] : differing)
      replays_.add({.score = scores[g], .rows = std::move(rows)}, context.arguments.grpo.replay_buffer_size);
    const auto drawn = replays_.draw(static_cast<int64_t>(same.size()), rollout_key(context).fold("replay"));
    double tokens = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      for (const BatchRow& row : drawn[i]->rows) tokens += row.numbers.at("tokens");
      for (const Completion& each : rolled.completions[same[i]])
        tokens -= counted_tokens(each, context.arguments.rollout);
      const auto place = own.find(same[i]);
      if (place == own.end()) continue;
      const auto [b, r] = place->second;
      std::copy(drawn[i]->rows.begin(), drawn[i]->rows.end(), out.steps[b].begin() + static_cast<std::ptrdiff_t>(r));
    }
    out.metrics["replayed_groups"] = static_cast<double>(drawn.size()) / static_cast<double>(count);
    return tokens;
  }

  // RLOO: the summed log-ratio of policy and reference is part of the reward.
  void lower_by_divergence(std::vector<double>& rewards, const GeneratedRows& generated, const PromptDeal& deal,
                           int64_t group, const GenerationContext& context, const Parallel* parallel) const {
    const RlooArguments& rloo = context.arguments.rloo;
    if (const auto& range = rloo.reward_clip_range) clip(rewards, (*range)[0], (*range)[1]);
    if (rloo.beta == 0) return;
    std::vector<double> divergences(rewards.size(), 0);
    for (std::size_t b = 0; b < generated.steps.size(); ++b) {
      for (std::size_t r = 0; r < generated.steps[b].size(); ++r) {
        const BatchRow& row = generated.steps[b][r];
        const auto local = static_cast<int64_t>(r);
        double& sum = divergences[deal.place(b, local / group) * static_cast<std::size_t>(group) +
                                  static_cast<std::size_t>(local % group)];
        const auto &mask = row.series.at("mask"), &old = row.series.at("old_logps"),
                   &reference = row.series.at("reference_logps");
        for (std::size_t t = 0; t < mask.size(); ++t) sum += mask[t] * (old[t] - reference[t]);
      }
    }
    divergences = sum_over_batch(std::move(divergences), parallel, context.batch.device);
    for (std::size_t i = 0; i < rewards.size(); ++i) rewards[i] -= rloo.beta * divergences[i];
  }

  std::string type_;
  PolicyParts parts_;
  CompletionScores scores_;
  ReplayBuffer replays_;
  ReferenceSync sync_;
  bool runs_base_ = false;
};

}  // namespace

std::unique_ptr<Objective> make_policy_objective(const std::string& trainer_type, PolicyParts parts) {
  if (trainer_type == "ppo") return make_ppo_objective(std::move(parts));
  if (prefers_own_samples(trainer_type)) return make_online_objective(trainer_type, std::move(parts));
  return std::make_unique<PolicyObjective>(trainer_type, std::move(parts));
}

}  // namespace easydel
