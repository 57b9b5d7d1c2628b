// For those who change the weights of a model that an engine runs.
#pragma once

namespace easydel::serve {

class Engine;

// Keys of earlier requests are used no more. Waits for the step that runs.
void forget_prefixes(Engine& engine);

}  // namespace easydel::serve
