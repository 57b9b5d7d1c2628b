// GLM-4 0414: the keys of GLM.
#pragma once

#include "easydel/models/glm/config.h"

namespace easydel {

struct Glm4Config : Config<Glm4Config, GlmConfigBase> {
  static constexpr std::string_view kModelType = "glm4";

  Glm4Config();
};

}  // namespace easydel
