// The task of a model that a trainer trains.
#pragma once

#include <string>
#include <vector>

#include "easydel/elarge/config/sections.h"

namespace easydel {

// Those that a trainer knows. Of a model that has several, the first counts.
std::vector<TaskType> trainable_tasks(const std::string& trainer_type);

// What model.task says, else the first of them that the model's type has a class for.
TaskType trained_task(const std::string& trainer_type, const ModelSection& model);

}  // namespace easydel
