// The training loop with its objectives, and scoring of texts.
#pragma once

#include "easydel/trainers/objectives/policy_objective.h"
#include "easydel/trainers/objectives/score.h"
#include "easydel/trainers/trainer.h"
