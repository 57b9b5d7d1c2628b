// Generalized knowledge distillation: "gkd".
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

}  // namespace easydel
