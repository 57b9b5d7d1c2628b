// Proximal policy optimization with a value model: "ppo".
#pragma once

#include <memory>

#include "easydel/trainers/objectives/policy_objective.h"

namespace easydel {

std::unique_ptr<Objective> make_ppo_objective(PolicyParts parts);

}  // namespace easydel
