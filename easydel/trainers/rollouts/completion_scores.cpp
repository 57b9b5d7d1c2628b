#include "easydel/trainers/rollouts/completion_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/sharding/parallel.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objectives/advantages.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {

std::string text_of(const AutoTokenizer& tokenizer, const std::vector<int64_t>& ids) {
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  return tokenizer->decode(narrow);
}

CompletionScores::CompletionScores(const std::string& trainer_type, const Json& rewards,
                                   const RolloutArguments& rollout, const RewardParts& parts,
                                   const std::vector<std::pair<std::string, RewardFunction>>& functions)
    : rewards_(make_rewards(rewards, parts)) {
  for (const auto& [name, function] : functions) rewards_.push_back(make_function_reward(name, function));
  require<ConfigError>(!rewards_.empty(), "[", trainer_type,
                       "] a reward is needed: --reward numeric, or rewards in the file.");
  if (!rollout.reward_weights) return;
  require<ConfigError>(rollout.reward_weights->size() == rewards_.size(), "[", trainer_type,
                       "] reward_weights must have a weight for each of the ", rewards_.size(), " rewards; got ",
                       rollout.reward_weights->size(), ".");
  for (std::size_t i = 0; i < rewards_.size(); ++i) rewards_[i]->weight = (*rollout.reward_weights)[i];
}

std::vector<RewardScores> CompletionScores::score(const std::vector<Prompt>& prompts, const RolloutResult& rolled,
                                                  const AutoTokenizer& tokenizer, const Parallel* parallel,
                                                  at::Device device) const {
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
                          .tokens = static_cast<int64_t>(each.own_tokens()),
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

std::vector<double> CompletionScores::combined(const std::vector<RewardScores>& scores) const {
  std::vector<double> sums(scores.front().size(), std::nan(""));
  for (std::size_t k = 0; k < scores.size(); ++k) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (scores[k][i]) sums[i] = (std::isnan(sums[i]) ? 0 : sums[i]) + rewards_[k]->weight * *scores[k][i];
    }
  }
  return sums;
}

void CompletionScores::add_metrics(std::map<std::string, double>& metrics, const RolloutResult& rolled,
                                   const std::vector<RewardScores>& scores, double seconds) const {
  const std::vector<double> rewards = combined(scores);
  std::vector<double> lengths, ended;
  double tokens = 0;
  for (const auto& group : rolled.completions) {
    for (const Completion& each : group) {
      lengths.push_back(each.own_tokens());
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
  metrics.insert(rolled.metrics.begin(), rolled.metrics.end());
  metrics["reward"] = mean_of(rewards);
  metrics["reward_std"] = deviation_of(rewards);
  metrics["prefilled_tokens"] = static_cast<double>(rolled.prefilled_tokens);
  metrics["rollout_seconds"] = seconds;
  metrics["rollout_tokens_per_second"] = tokens / std::max(seconds, 1e-9);
}

std::vector<std::pair<std::string, std::optional<double>>> CompletionScores::by_name(
    const std::vector<RewardScores>& scores, std::size_t index) const {
  std::vector<std::pair<std::string, std::optional<double>>> named;
  for (std::size_t k = 0; k < rewards_.size(); ++k) named.emplace_back(rewards_[k]->name(), scores[k][index]);
  return named;
}

}  // namespace easydel
