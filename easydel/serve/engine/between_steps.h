// For those who need an engine to do the same thing whatever the clock says.
#pragma once

#include <functional>

namespace easydel::serve {

class Engine;

// Runs `action` on the engine's thread while no step runs, and waits for it. Requests that it submits are taken in
// together: which of them share a step depends on them alone. What it throws is thrown here.
void between_steps(Engine& engine, const std::function<void()>& action);

}  // namespace easydel::serve
