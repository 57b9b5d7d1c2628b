// The rewards of a run: what completions get, and what is logged of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "easydel/trainers/rewards/reward.h"
#include "easydel/trainers/rollouts/prompt_deal.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

std::string text_of(const AutoTokenizer& tokenizer, const std::vector<int64_t>& ids);

class RunningScores;

// The scores of one generation, of which some are asked for while completions are still written.
class PendingScores final : public CompletionSink {
 public:
  // On another rank than the first one, which asks: nothing is asked.
  PendingScores(const std::vector<std::unique_ptr<Reward>>& rewards, const std::vector<Prompt>& prompts, int64_t group,
                const AutoTokenizer& tokenizer, bool asks);
  ~PendingScores() override;

  void take(std::size_t prompt, std::size_t index, const Completion& completion) override;
  bool has_failed() const override;
  void check() const override;
  // Of each reward, completions of one prompt after those of another.
  std::vector<RewardScores> finish(const RolloutResult& rolled);
  // Of the scores that may be there before a rollout ends, the share that is; nothing without such.
  std::optional<double> share_done() const;
  double seconds() const;  // since the beginning

 private:
  RewardInput input_of(std::size_t prompt, const Completion& completion) const;

  const std::vector<Prompt>& prompts_;
  std::size_t group_;
  std::vector<std::string> texts_;  // of the prompts
  std::unique_ptr<RunningScores> running_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Of each reward, and how much of it was done while completions were still written.
struct ScoredCompletions {
  std::vector<RewardScores> of_rewards;
  double rollout_seconds = 0;
  double wait_seconds = 0;             // from the end of the rollout until all scores are there
  std::optional<double> share_before;  // of the scores that may be there before the rollout ends; nothing without such
};

class CompletionScores {
 public:
  CompletionScores() = default;
  // From the arguments' rewards, followed by functions. ConfigError, which names the trainer, if there are none, or not
  // as many as reward_weights.
  CompletionScores(const std::string& trainer_type, const Json& rewards, const RolloutArguments& rollout,
                   const RewardParts& parts, const std::vector<std::pair<std::string, RewardFunction>>& functions);

  // For a generation with `group` completions of each prompt. Rollouts are told of it, so that programs and servers are
  // asked while they go on. What it is given outlives it.
  PendingScores begin(const std::vector<Prompt>& prompts, int64_t group, const AutoTokenizer& tokenizer,
                      const Parallel* parallel) const;
  // All ranks call it together; the first one asks, so that a program is started once.
  ScoredCompletions finish(PendingScores& pending, const RolloutResult& rolled, const Parallel* parallel,
                           at::Device device) const;
  // The weighted sum of each completion's rewards; NaN where there is none.
  std::vector<double> combined(const std::vector<RewardScores>& scores) const;
  // reward, rewards/…, completions/… and what the rollout cost.
  void add_metrics(std::map<std::string, double>& metrics, const RolloutResult& rolled,
                   const ScoredCompletions& scored) const;
  // Completion `index`'s rewards by their names.
  std::vector<std::pair<std::string, std::optional<double>>> by_name(const std::vector<RewardScores>& scores,
                                                                     std::size_t index) const;

 private:
  std::vector<std::unique_ptr<Reward>> rewards_;
};

}  // namespace easydel
