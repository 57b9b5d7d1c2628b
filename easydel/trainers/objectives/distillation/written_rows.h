// Completions that a student or its teacher writes, as rows.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/trainers/objectives/objective.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

// What `rollouts` writes for the prompt_ids of a batch, `group` completions of each: adds one step of this rank's rows,
// whose labels are the completions, and what it took to the metrics. All ranks call it together.
void add_written_rows(GeneratedRows& out, const RolloutFunction& rollouts, int64_t group,
                      const std::vector<std::vector<data::Example>>& batches, const RandomKey& key,
                      const BaseModule& model, const GenerationContext& context);

}  // namespace easydel
