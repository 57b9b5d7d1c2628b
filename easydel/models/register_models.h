// The models of this library, for the registry.
#pragma once

namespace easydel {

class Registry;

void register_models(Registry& registry);

}  // namespace easydel
