// The weights of a checkpoint into a model that is there already.
#pragma once

#include <filesystem>

#include "easydel/infra/base_module.h"

namespace easydel {

// ConfigError when it is another family's; FormatError unless the files have the model's parameters and no others.
void reload_weights(BaseModule& model, const std::filesystem::path& checkpoint);

}  // namespace easydel
