// The current forward pass of this thread, for adapters, which only see x and y.
#pragma once

#include "easydel/layers/forward_context.h"

namespace easydel {

// During its lifetime, current_forward() returns this context; also in backward, where a layer is recomputed.
class LayerScope {
 public:
  explicit LayerScope(const ForwardContext& ctx);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  const ForwardContext* before_;
};

const ForwardContext* current_forward();  // null outside layers

}  // namespace easydel
