// Weights that a config ties and files hold twice, with different values: flan-t5's lm_head and shared.
#pragma once

#include <memory>

#include "easydel/infra/files/weights.h"

namespace easydel {

// As transformers does it: what a config ties is one weight unless the files have other values under its second name.
// Null: nothing is to be untied. The weights are still without memory.
std::shared_ptr<const ModuleTransform> untie_what_differs(const BaseModule& module, const TensorSource& source);

}  // namespace easydel
