// Generalized knowledge distillation, "gkd", and its kin: "seq_kd", "on_policy_distillation", "sparse_distillation".
#pragma once

#include <memory>

#include "easydel/trainers/objectives/objective.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

struct GkdParts {
  std::shared_ptr<const BaseModule> teacher;
  RolloutFunction student_rollouts = {}, teacher_rollouts = {};  // absent: the engine
};

std::unique_ptr<Objective> make_gkd_objective(GkdParts parts);
std::unique_ptr<Objective> make_written_objective(const std::string& trainer_type, GkdParts parts);

}  // namespace easydel
