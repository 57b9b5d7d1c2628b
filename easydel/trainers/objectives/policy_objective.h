// Objectives that learn from rewards of what the model writes itself: "grpo", "gfpo", "rlvr", "rloo" and "ppo",
// and "online_dpo", "xpo" and "nash_md", which learn what of two completions the rewards prefer.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "easydel/trainers/objectives/objective.h"
#include "easydel/trainers/rewards/reward.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

// What the arguments cannot say.
struct PolicyParts {
  // The reference of the KL divergence, if beta is above 0. Absent: the model without its adapters.
  std::shared_ptr<const BaseModule> reference = {};
  std::shared_ptr<const BaseModule> reward_model = {};                        // of the reward reward_model
  std::shared_ptr<BaseModule> value_model = {};                               // of ppo, trained along
  std::vector<std::pair<std::string, RewardFunction>> reward_functions = {};  // by name, after the arguments' own
  RolloutFunction rollouts = {};                                              // absent: the engine
  RolloutFunction opponent_rollouts = {};  // of the reference (xpo) or the mixture (nash_md); absent: theirs
};

std::unique_ptr<Objective> make_policy_objective(const std::string& trainer_type, PolicyParts parts);

}  // namespace easydel
