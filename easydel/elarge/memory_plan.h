// Whether a run needs gradient checkpointing to fit into the device's memory.
#pragma once

#include <optional>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/elarge/config/elarge_config.h"
#include "easydel/infra/base_module.h"

namespace easydel {

// The policy to train the model of this section with: none if the estimate fits, if a policy is set anywhere, or if
// checkpointing would not help. `changes` are those of the model's config. Says what it decides. All ranks call this
// together.
std::optional<std::string> checkpointing_by_memory(const ELargeConfig& config, const ModelSection& section,
                                                   TaskType task, const Json& changes, bool spread);

}  // namespace easydel
