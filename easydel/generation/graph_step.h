// The decode step as a CUDA graph: captured once, then replayed with one call for each token.
#pragma once

#include "easydel/generation/decode_step.h"

namespace easydel {

// On one GPU, with a dense cache and nothing that looks at values on the host.
bool can_capture(const BaseModule& module, const ModelInputs& inputs);
std::unique_ptr<DecodeStep> make_graph_step(const BaseModule& module, ModelInputs inputs);

}  // namespace easydel
