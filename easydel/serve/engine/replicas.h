// Several engines as one: a request goes to the one that has least to do.
#pragma once

#include <memory>
#include <vector>

#include "easydel/serve/engine/engine.h"

namespace easydel::serve {

// At least one. All have the same model.
std::shared_ptr<Engine> make_replicas(std::vector<std::shared_ptr<Engine>> engines);

}  // namespace easydel::serve
