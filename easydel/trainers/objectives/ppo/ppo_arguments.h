// The arguments of ppo: EasyDeL's keys and defaults, and trl's num_mini_batches.
#pragma once

#include <optional>
#include <string>

namespace easydel {

class FieldVisitor;
struct RolloutArguments;

struct PpoArguments {
  double kl_coef = 0.05;            // how much the divergence from the reference lowers a token's reward; 0: none
  std::string kl_estimator = "k1";  // or k3
  double cliprange = 0.2;
  double cliprange_value = 0.2;
  double vf_coef = 0.1;  // weight of the value model's loss
  double gamma = 1.0;    // discount of later rewards
  double lam = 0.95;     // of generalized advantage estimation
  bool whiten_rewards = false;
  bool whiten_advantages = true;
  std::optional<double> entropy_coef;         // weight of an entropy bonus; none
  std::optional<double> missing_eos_penalty;  // taken from the reward of a completion that did not end
};

// With the keys of rollouts: num_ppo_epochs is how often a completion is trained on, num_mini_batches how many steps
// share a generation.
void list_fields(PpoArguments& ppo, RolloutArguments& rollout, FieldVisitor& v);

}  // namespace easydel
