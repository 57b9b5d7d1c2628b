// What a value model expects of the tokens that follow.
#pragma once

#include <optional>

#include "easydel/core/random.h"
#include "easydel/infra/base_module.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {

// ConfigError, which names the trainer, unless it is a sequence classifier of one number with the policy's vocabulary,
// on its mesh.
void require_value_model(const BaseModule* value, const BaseModule& policy, const std::string& trainer_type);

// [rows, T]: the classifier's output at each place. Of the whole batch, on every rank.
at::Tensor token_values(const BaseModule& value, const Batch& batch, const std::optional<RandomKey>& dropout_key);

}  // namespace easydel
