// The forward pass that this thread is in: what adapters, which see x and y alone, need to know of it.
#pragma once

#include "easydel/layers/forward_context.h"

namespace easydel {

// While it lives, current_forward() gives this context; also in backward, where a layer is computed again.
class LayerScope {
 public:
  explicit LayerScope(const ForwardContext& ctx);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  const ForwardContext* before_;
};

const ForwardContext* current_forward();  // null outside of the layers

}  // namespace easydel
