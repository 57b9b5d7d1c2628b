// The decode step as a CUDA graph: captured once, then replayed with one call for each token.
#pragma once

#include <c10/core/Allocator.h>

#include <functional>
#include <memory>

#include "easydel/generation/decode_step.h"

namespace at::cuda {
struct CUDAGraph;
}

namespace easydel {

// On one GPU, with a dense cache and nothing that looks at values on the host.
bool can_capture(const BaseModule& module, const ModelInputs& inputs);
std::unique_ptr<DecodeStep> make_graph_step(const BaseModule& module, ModelInputs inputs);

// What `launch` launches on the current GPU, as a graph with memory of its own or of `pool`; nothing is computed yet.
// Null where it cannot be captured: some operations need the host in between. `what` is in the log then. In builds with
// CUDA.
std::unique_ptr<at::cuda::CUDAGraph> capture_graph(const std::function<void()>& launch, const char* what,
                                                   c10::MempoolId_t pool = {0, 0});

}  // namespace easydel
