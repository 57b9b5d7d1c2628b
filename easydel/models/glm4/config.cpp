#include "easydel/models/glm4/config.h"

namespace easydel {

Glm4Config::Glm4Config() = default;

}  // namespace easydel
