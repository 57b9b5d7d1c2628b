// Settings of a config that are read and kept for EasyDeL, and change nothing here: said once, when a model is made.
#pragma once

#include <string>
#include <vector>

#include "easydel/infra/config/base_config.h"

namespace easydel {

// A line for each such setting that is not at its default, beginning with the class of the config. Whoever changes
// results is refused by validate() instead.
std::vector<std::string> config_notes(const BaseConfig& config);
void log_config_notes(const BaseConfig& config);

}  // namespace easydel
