// Preferences between completions that are written during the run: "online_dpo", "xpo" and "nash_md".
#pragma once

#include <memory>
#include <string>

#include "easydel/trainers/objectives/policy_objective.h"

namespace easydel {

std::unique_ptr<Objective> make_online_objective(const std::string& trainer_type, PolicyParts parts);

}  // namespace easydel
