#include "easydel/trainers/rollouts/completion_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/sharding/parallel.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objectives/advantages.h"
#include "easydel/trainers/rewards/running_scores.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {
namespace {

Json or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

std::optional<double> number_or_nothing(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.as_double());
}

Json to_json(const ScoredCompletions& scored) {
  Json all = Json::array();
  for (const RewardScores& of_reward : scored.of_rewards) {
    Json list = Json::array();
    for (const auto& each : of_reward) list.push_back(or_null(each));
    all.push_back(std::move(list));
  }
  return Json::object({{"scores", std::move(all)}, {"before", or_null(scored.share_before)}});
}

void read(const Json& json, ScoredCompletions& scored) {
  scored.of_rewards.clear();
  for (const Json& list : json.at("scores").as_array()) {
    RewardScores& of_reward = scored.of_rewards.emplace_back();
    for (const Json& each : list.as_array()) of_reward.push_back(number_or_nothing(each));
  }
  scored.share_before = number_or_nothing(json.at("before"));
}

}  // namespace

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

PendingScores::PendingScores(const std::vector<std::unique_ptr<Reward>>& rewards, const std::vector<Prompt>& prompts,
                             int64_t group, const AutoTokenizer& tokenizer, bool asks)
    : prompts_(prompts), group_(static_cast<std::size_t>(group)) {
  if (!asks) return;
  for (const Prompt& prompt : prompts) texts_.push_back(text_of(tokenizer, prompt.ids));
  running_ = std::make_unique<RunningScores>(rewards, prompts.size(), group_);
}

PendingScores::~PendingScores() = default;

RewardInput PendingScores::input_of(std::size_t prompt, const Completion& completion) const {
  RewardInput input{.prompt = texts_[prompt],
                    .completion = completion.text,
                    .row = &prompts_[prompt].row,
                    .tokens = static_cast<int64_t>(completion.own_tokens()),
                    .is_truncated = completion.is_truncated,
                    .ids = prompts_[prompt].ids};
  input.ids.insert(input.ids.end(), completion.ids.begin(), completion.ids.end());
  return input;
}

void PendingScores::take(std::size_t prompt, std::size_t index, const Completion& completion) {
  if (running_) running_->add(prompt * group_ + index, input_of(prompt, completion));
}

bool PendingScores::has_failed() const { return running_ && running_->has_failed(); }

void PendingScores::check() const {
  if (running_) running_->check();
}

std::optional<double> PendingScores::share_done() const { return running_ ? running_->share_done() : std::nullopt; }

double PendingScores::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

std::vector<RewardScores> PendingScores::finish(const RolloutResult& rolled) {
  std::vector<RewardInput> inputs;
  for (std::size_t p = 0; p < prompts_.size(); ++p) {
    for (const Completion& each : rolled.completions[p]) inputs.push_back(input_of(p, each));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) running_->add(i, inputs[i]);
  return running_->finish(inputs);
}

PendingScores CompletionScores::begin(const std::vector<Prompt>& prompts, int64_t group, const AutoTokenizer& tokenizer,
                                      const Parallel* parallel) const {
  const bool asks = !parallel || parallel->is_single() || parallel->everyone().rank() == 0;
  return PendingScores(rewards_, prompts, group, tokenizer, asks);
}

ScoredCompletions CompletionScores::finish(PendingScores& pending, const RolloutResult& rolled,
                                           const Parallel* parallel, at::Device device) const {
  ScoredCompletions scored{.of_rewards = {}, .rollout_seconds = pending.seconds(), .share_before = {}};
  const bool is_shared = parallel && !parallel->is_single();
  std::string text;
  if (!is_shared || parallel->everyone().rank() == 0) {
    scored.share_before = pending.share_done();
    try {
      scored.of_rewards = pending.finish(rolled);
    } catch (const std::exception& error) {
      if (!is_shared) throw;
      text = concat("!", error.what());
    }
  }
  if (is_shared) {
    if (text.empty()) text = to_json(scored).dump();
    text = broadcast_text(text, *parallel, device);
    require<Error>(!text.starts_with("!"), text.substr(1));
    read(Json::parse(text), scored);
  }
  scored.wait_seconds = pending.seconds() - scored.rollout_seconds;
  return scored;
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
                                   const ScoredCompletions& scored) const {
  const std::vector<RewardScores>& scores = scored.of_rewards;
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
  metrics["rollout_seconds"] = scored.rollout_seconds;
  metrics["rollout_tokens_per_second"] = tokens / std::max(scored.rollout_seconds, 1e-9);
  metrics["reward_wait_seconds"] = scored.wait_seconds;
  if (scored.share_before) metrics["rewards_during_rollout"] = *scored.share_before;
}

std::vector<std::pair<std::string, std::optional<double>>> CompletionScores::by_name(
    const std::vector<RewardScores>& scores, std::size_t index) const {
  std::vector<std::pair<std::string, std::optional<double>>> named;
  for (std::size_t k = 0; k < rewards_.size(); ++k) named.emplace_back(rewards_[k]->name(), scores[k][index]);
  return named;
}

}  // namespace easydel
