#include "easydel/trainers/objectives/ppo/ppo_arguments.h"

#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/objectives/policy_arguments.h"

namespace easydel {

void list_fields(PpoArguments& p, RolloutArguments& r, FieldVisitor& v) {
  list_drawing_fields(r, v);
  list_group_fields(r, v);
  v("num_ppo_epochs", r.num_iterations, "Number of times each completion is trained on.");
  v("num_mini_batches", r.steps_per_generation, "Optimizer steps whose completions are generated together.");
  v("kl_coef", p.kl_coef, "Coefficient of the KL penalty in the reward; 0: no reference model.");
  v("kl_estimator", p.kl_estimator, "Estimator of the KL divergence: k1 or k3.");
  v("cliprange", p.cliprange, "Clip range of the policy ratio.");
  v("cliprange_value", p.cliprange_value, "Clip range of values around those at generation.");
  v("vf_coef", p.vf_coef, "Weight of the value model's loss.");
  v("gamma", p.gamma, "Discount factor of later rewards.");
  v("lam", p.lam, "Lambda of generalized advantage estimation.");
  v("whiten_rewards", p.whiten_rewards, "Divide token rewards by their standard deviation.");
  v("whiten_advantages", p.whiten_advantages, "Normalize advantages to mean 0 and standard deviation 1.");
  v("entropy_coef", p.entropy_coef, "Weight of an entropy bonus; null: none.");
  v("missing_eos_penalty", p.missing_eos_penalty,
    "Subtracted from the reward of a completion without an end token; null: nothing.");
}

}  // namespace easydel
