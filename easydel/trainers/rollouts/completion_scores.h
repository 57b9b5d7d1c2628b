// The rewards of a run: what completions get, and what is logged of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "easydel/trainers/rewards/reward.h"
#include "easydel/trainers/rollouts/prompt_deal.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

std::string text_of(const AutoTokenizer& tokenizer, const std::vector<int64_t>& ids);

class CompletionScores {
 public:
  CompletionScores() = default;
  // From the arguments' rewards, followed by functions. ConfigError, which names the trainer, if there are none, or not
  // as many as reward_weights.
  CompletionScores(const std::string& trainer_type, const Json& rewards, const RolloutArguments& rollout,
                   const RewardParts& parts, const std::vector<std::pair<std::string, RewardFunction>>& functions);

  // Of each reward, completions of one prompt after those of another. All ranks call it together; the first one asks,
  // so that a program is started once.
  std::vector<RewardScores> score(const std::vector<Prompt>& prompts, const RolloutResult& rolled,
                                  const AutoTokenizer& tokenizer, const Parallel* parallel, at::Device device) const;
  // The weighted sum of each completion's rewards; NaN where there is none.
  std::vector<double> combined(const std::vector<RewardScores>& scores) const;
  // reward, rewards/…, completions/… and what the rollout cost.
  void add_metrics(std::map<std::string, double>& metrics, const RolloutResult& rolled,
                   const std::vector<RewardScores>& scores, double seconds) const;
  // Completion `index`'s rewards by their names.
  std::vector<std::pair<std::string, std::optional<double>>> by_name(const std::vector<RewardScores>& scores,
                                                                     std::size_t index) const;

 private:
  std::vector<std::unique_ptr<Reward>> rewards_;
};

}  // namespace easydel
