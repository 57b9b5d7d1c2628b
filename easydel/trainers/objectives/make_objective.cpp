#include "easydel/core/error.h"
#include "easydel/trainers/objectives/distillation/gkd_objective.h"
#include "easydel/trainers/objectives/policy_objective.h"
#include "easydel/trainers/trainer.h"

namespace easydel {

std::unique_ptr<Objective> make_objective(const std::string& trainer_type, std::shared_ptr<const BaseModule> other) {
  if (trainer_type == "sft" || trainer_type == "base") return make_causal_lm_objective();
  if (trainer_type == "classification") return make_classification_objective();
  if (trainer_type == "dpo") return make_dpo_objective(std::move(other));
  if (trainer_type == "kto") return make_kto_objective(std::move(other));
  if (trainer_type == "bco") return make_bco_objective(std::move(other));
  if (trainer_type == "cpo") return make_cpo_objective();
  if (trainer_type == "orpo") return make_orpo_objective();
  if (learns_from_rewards(trainer_type)) return make_policy_objective(trainer_type, {.reference = std::move(other)});
  if (trainer_type == "reward") return make_reward_objective();
  if (trainer_type == "prm") return make_prm_objective();
  if (trainer_type == "distillation") return make_distillation_objective(std::move(other));
  if (trainer_type == "gkd") return make_gkd_objective({.teacher = std::move(other)});
  require_trainer_type(trainer_type, "[make_objective]");
  fail<NotSupportedError>("[make_objective] ", trainer_type, " is not supported yet.");
}

}  // namespace easydel
