#include "easydel/trainers/objectives/policy_objective.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/lora/lora.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/objectives/advantages.h"
#include "easydel/trainers/objectives/grpo_loss.h"
#include "easydel/trainers/objectives/pairs.h"
#include "easydel/trainers/objectives/policy_logps.h"
#include "easydel/trainers/rollouts/completion_log.h"
#include "easydel/trainers/rollouts/prompt_deal.h"

namespace easydel {
namespace {

using Ids = std::vector<int64_t>;

std::string text_of(const AutoTokenizer& tokenizer, const Ids& ids) {
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  return tokenizer->decode(narrow);
}

// The model computes like its base.
class WithoutAdapters {
 public:
  explicit WithoutAdapters(BaseModule& model) : model_(model) { disable_adapters(model_); }
  ~WithoutAdapters() { enable_adapters(model_); }
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  BaseModule& model_;
};

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

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return data::make_prompt_transform(
        tokenizer,
        {.codec = {}, .max_length = arguments.rollout.max_prompt_length, .truncation_mode = arguments.truncation_mode});
  }
  std::vector<BatchRow> rows(const data::Example&) const override { return {}; }

  double count_items(const std::vector<BatchRow>& rows) const override {
    double count = 0;
    for (const BatchRow& row : rows) count += row.numbers.at("counts");
    return count;
  }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    const RolloutArguments& rollout = arguments.rollout;
    rewards_ = make_rewards(type_ == "rlvr" ? arguments.rlvr.rewards(rollout.rewards) : rollout.rewards,
                            {.model = parts_.reward_model});
    for (const auto& [name, function] : parts_.reward_functions)
      rewards_.push_back(make_function_reward(name, function));
    require<ConfigError>(!rewards_.empty(), "[", type_,
                         "] a reward is needed: --reward numeric, or rewards in the file.");
    if (rollout.reward_weights) {
      require<ConfigError>(rollout.reward_weights->size() == rewards_.size(), "[", type_,
                           "] reward_weights must have a weight for each of the ", rewards_.size(), " rewards; got ",
                           rollout.reward_weights->size(), ".");
      for (std::size_t i = 0; i < rewards_.size(); ++i) rewards_[i]->weight = (*rollout.reward_weights)[i];
    }
    if (beta(arguments) == 0) parts_.reference = nullptr;
    if (parts_.reference) require_same_mesh(model, *parts_.reference, concat("[", type_, "] the reference"));
    require<ConfigError>(beta(arguments) == 0 || parts_.reference || !adapter_names(model).empty(), "[", type_,
                         "] beta needs a reference model, or adapters on the model (lora_rank), whose base it then is. "
                         "Without either set beta to 0.");
    const int64_t context = model.config().max_position_embeddings;
    require<ConfigError>(context == 0 || rollout.max_completion_length < context, "[", type_,
                         "] max_completion_length must be below the model's context of ", context, " tokens; got ",
                         rollout.max_completion_length, ".");
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

    const auto begin = std::chrono::steady_clock::now();
    if (!parts_.rollouts) parts_.rollouts = make_rollouts(model, context.tokenizer, rollout);
    std::vector<Ids> ids;
    for (const Prompt& prompt : prompts) ids.push_back(prompt.ids);
    const RandomKey key = RandomKey(static_cast<uint64_t>(context.arguments.seed))
                              .fold(context.is_evaluation ? "evaluation" : "rollout")
                              .fold(static_cast<uint64_t>(context.step));
    RolloutResult rolled = parts_.rollouts(ids, rollout.num_return_sequences, key);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::vector<RewardScores> scores = score(prompts, rolled, context.tokenizer, parallel, device);

    GeneratedRows out;
    add_metrics(out.metrics, rolled, scores, seconds);
    if (type_ == "gfpo") out.metrics["completions/kept_mean_length"] = filter(rolled, scores, context.arguments);
    for (std::size_t b = 0; b < batches.size(); ++b) {
      std::vector<BatchRow> rows;
      for (int64_t i = 0; i < static_cast<int64_t>(batches[b].size()); ++i) {
        const std::size_t at = deal.place(b, i);
        for (const Completion& completion : rolled.completions[at])
          rows.push_back(row_of(prompts[at].ids, completion, rollout));
      }
      out.steps.push_back(std::move(rows));
    }
    add_logps(out, model, context);
    // Of all ranks: the rewards of a group, and the divergence that lowers them.
    std::vector<double> rewards = combined(scores);
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
        out.steps[b][r].numbers["generation_tokens"] = tokens / static_cast<double>(batches.size());
      }
    }
    out.metrics["frac_reward_zero_std"] = advantages.zero_deviation_share;
    if (rollout.log_completions && !context.is_evaluation && (!parallel || parallel->mesh().rank() == 0)) {
      std::vector<LoggedCompletion> logged;
      for (std::size_t i = 0; i < unscaled.size(); ++i) {
        const std::size_t p = i / static_cast<std::size_t>(group);
        LoggedCompletion each{.prompt = text_of(context.tokenizer, prompts[p].ids),
                              .completion = rolled.completions[p][i % static_cast<std::size_t>(group)].text,
                              .rewards = {},
                              .reward = unscaled[i],
                              .advantage = advantages.values[i]};
        for (std::size_t k = 0; k < rewards_.size(); ++k) each.rewards.emplace_back(rewards_[k]->name(), scores[k][i]);
        logged.push_back(std::move(each));
      }
      log_completions(logged, context.step, context.arguments);
    }
    return out;
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

  // By rank 0, for all: a program is started once.
  std::vector<RewardScores> score(const std::vector<Prompt>& prompts, const RolloutResult& rolled,
                                  const AutoTokenizer& tokenizer, const Parallel* parallel, at::Device device) {
    const bool is_shared = parallel && !parallel->is_single();
    std::string text;
    std::vector<RewardScores> scores;
    if (!is_shared || parallel->everyone().rank() == 0) {
      std::vector<RewardInput> inputs;
      for (std::size_t p = 0; p < prompts.size(); ++p) {
        const std::string prompt = text_of(tokenizer, prompts[p].ids);
        for (const Completion& each : rolled.completions[p]) {
          RewardInput input{.prompt = prompt,
                            .completion = each.text,
                            .row = &prompts[p].row,
                            .tokens = static_cast<int64_t>(each.ids.size()),
                            .is_truncated = each.is_truncated,
                            .ids = prompts[p].ids};
          input.ids.insert(input.ids.end(), each.ids.begin(), each.ids.end());
          inputs.push_back(std::move(input));
        }
      }
      if (!is_shared) return score_all(rewards_, inputs);
      try {
        Json all = Json::array();
        for (const RewardScores& of_reward : score_all(rewards_, inputs)) {
          Json list = Json::array();
          for (const auto& each : of_reward) list.push_back(each ? Json(*each) : Json());
          all.push_back(std::move(list));
        }
        text = all.dump();
      } catch (const std::exception& error) {
        text = concat("!", error.what());
      }
    }
    text = broadcast_text(text, *parallel, device);
    require<Error>(!text.starts_with("!"), text.substr(1));
    const Json shared = Json::parse(text);
    for (const Json& list : shared.as_array()) {
      RewardScores of_reward;
      for (const Json& each : list.as_array())
        of_reward.push_back(each.is_null() ? std::nullopt : std::optional(each.as_double()));
      scores.push_back(std::move(of_reward));
    }
    return scores;
  }

  // Leaves the best completions of each group, with their scores; their mean length.
  double filter(RolloutResult& rolled, std::vector<RewardScores>& scores, const TrainingArguments& arguments) const {
    const RolloutArguments& rollout = arguments.rollout;
    const auto group = static_cast<std::size_t>(rollout.num_return_sequences);
    std::vector<double> lengths;
    for (const auto& completions : rolled.completions) {
      for (const Completion& each : completions) lengths.push_back(static_cast<double>(each.ids.size()));
    }
    const std::vector<std::size_t> chosen = filtered_groups(combined(scores), lengths, rollout.num_return_sequences,
                                                            rollout.max_completion_length, arguments.gfpo);
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

  // The weighted sum of each completion's rewards; NaN where there is none.
  std::vector<double> combined(const std::vector<RewardScores>& scores) const {
    std::vector<double> sums(scores.front().size(), std::nan(""));
    for (std::size_t k = 0; k < scores.size(); ++k) {
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (scores[k][i]) sums[i] = (std::isnan(sums[i]) ? 0 : sums[i]) + rewards_[k]->weight * *scores[k][i];
      }
    }
    return sums;
  }

  static double counted_tokens(const Completion& completion, const RolloutArguments& rollout) {
    const bool counts = !(rollout.mask_truncated_completions && completion.is_truncated);
    return counts ? static_cast<double>(completion.ids.size()) : 0;
  }

  // Place t of a series belongs to the token t + 1, which is predicted there.
  static BatchRow row_of(const Ids& prompt, const Completion& completion, const RolloutArguments& rollout) {
    const double counted = counted_tokens(completion, rollout);
    BatchRow row{.input_ids = prompt, .labels = Ids(prompt.size(), data::kNoLoss)};
    row.input_ids.insert(row.input_ids.end(), completion.ids.begin(), completion.ids.end());
    if (counted > 0) row.labels.insert(row.labels.end(), completion.ids.begin(), completion.ids.end());
    row.labels.resize(row.input_ids.size(), data::kNoLoss);
    row.numbers = {{"counts", 1}, {"tokens", counted}, {"prompt_tokens", static_cast<double>(prompt.size())}};
    const auto put = [&](const std::string& name, const std::vector<double>& values) {
      std::vector<double>& series = row.series[name];
      series.assign(prompt.size() - 1, 0);
      series.insert(series.end(), values.begin(), values.end());
    };
    put("mask", std::vector<double>(completion.ids.size(), counted > 0 ? 1.0 : 0.0));
    if (completion.logps.size() == completion.ids.size()) put("sampling_logps", completion.logps);
    return row;
  }

  // What is fixed while a generation is trained on: the log-probabilities of the policy that wrote it, and of the
  // reference.
  void add_logps(GeneratedRows& generated, const std::shared_ptr<BaseModule>& model, const GenerationContext& context) {
    const bool has_divergence = beta(context.arguments) != 0;
    const bool needs_old = (!context.is_evaluation && context.arguments.rollout.steps_of_generation() > 1) ||
                           (type_ == "rloo" && has_divergence);
    const at::NoGradGuard no_grad;
    if (needs_old) add_series("old_logps", generated, *model, *model, context);
    if (!has_divergence) return;
    if (parts_.reference) return add_series("reference_logps", generated, *parts_.reference, *model, context);
    const WithoutAdapters off(*model);
    add_series("reference_logps", generated, *model, *model, context);
  }

  static void add_series(const std::string& name, GeneratedRows& generated, const BaseModule& scorer,
                         const BaseModule& model, const GenerationContext& context) {
    const Parallel* parallel = model.parallel().get();
    const OwnRows own = own_rows(context.batch.rows, parallel);
    for (std::vector<BatchRow>& rows : generated.steps) {
      for (std::size_t begin = 0; begin < rows.size(); begin += static_cast<std::size_t>(own.count)) {
        const auto first = rows.begin() + static_cast<std::ptrdiff_t>(begin);
        const Batch batch = make_batch({first, first + own.count}, context.batch, parallel);
        const LossContext loss{.arguments = context.arguments};
        const at::Tensor table = policy_logps(scorer, batch, loss, context.arguments.rollout.temperature, false)
                                     .tokens.narrow(0, own.first, own.count)
                                     .to(at::kCPU, at::kDouble)
                                     .contiguous();
        for (int64_t i = 0; i < own.count; ++i) {
          const double* values = table.const_data_ptr<double>() + i * table.size(1);
          BatchRow& row = *(first + i);
          row.series[name] = std::vector<double>(values, values + row.input_ids.size());
        }
      }
    }
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

  void add_metrics(std::map<std::string, double>& metrics, const RolloutResult& rolled,
                   const std::vector<RewardScores>& scores, double seconds) const {
    const std::vector<double> rewards = combined(scores);
    std::vector<double> lengths, ended;
    double tokens = 0;
    for (const auto& group : rolled.completions) {
      for (const Completion& each : group) {
        lengths.push_back(static_cast<double>(each.ids.size()));
        tokens += lengths.back();
        if (!each.is_truncated) ended.push_back(lengths.back());
      }
    }
    const double terminated = static_cast<double>(ended.size());
    if (ended.empty()) ended.push_back(0);
    const auto add_lengths = [&](const std::string& what, const std::vector<double>& values) {
      metrics[concat("completions/mean_", what)] = mean_of(values);
      metrics[concat("completions/min_", what)] = *std::min_element(values.begin(), values.end());
      metrics[concat("completions/max_", what)] = *std::max_element(values.begin(), values.end());
    };
    add_lengths("length", lengths);
    add_lengths("terminated_length", ended);
    metrics["completions/clipped_ratio"] = 1 - terminated / static_cast<double>(lengths.size());
    for (std::size_t k = 0; k < scores.size(); ++k) {
      std::vector<double> values;
      for (const auto& each : scores[k]) values.push_back(each.value_or(std::nan("")));
      metrics[concat("rewards/", rewards_[k]->name(), "/mean")] = mean_of(values);
      metrics[concat("rewards/", rewards_[k]->name(), "/std")] = deviation_of(values);
    }
    metrics["reward"] = mean_of(rewards);
    metrics["reward_std"] = deviation_of(rewards);
    metrics["prefilled_tokens"] = static_cast<double>(rolled.prefilled_tokens);
    metrics["rollout_seconds"] = seconds;
    metrics["rollout_tokens_per_second"] = tokens / std::max(seconds, 1e-9);
  }

  std::string type_;
  PolicyParts parts_;
  std::vector<std::unique_ptr<Reward>> rewards_;
};

}  // namespace

std::unique_ptr<Objective> make_policy_objective(const std::string& trainer_type, PolicyParts parts) {
  return std::make_unique<PolicyObjective>(trainer_type, std::move(parts));
}

}  // namespace easydel
