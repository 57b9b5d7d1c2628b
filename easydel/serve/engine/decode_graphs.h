// Steps in which every sequence gets one more token, captured in CUDA graphs by the size of the batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/serve/engine/runner.h"

namespace easydel::serve {

class DecodeGraphs {
 public:
  // Null where nothing can be captured: without CUDA, on a mesh, or with a cache that the kernels do not read.
  static std::unique_ptr<DecodeGraphs> make(std::shared_ptr<const BaseModule> model,
                                            std::shared_ptr<RaggedPagesCache> cache, int64_t max_batch);
  virtual ~DecodeGraphs() = default;

  // The logits [parts, V] of such a step, valid until the next; none for other steps, and for a model whose step turned
  // out not to be capturable.
  virtual std::optional<at::Tensor> run(const StepInputs& inputs) = 0;
};

}  // namespace easydel::serve
