#include "easydel/caching/recurrent_states.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace easydel {

void store_recurrent_states(Cache& cache, int64_t layer, const std::vector<at::Tensor>& states) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor>& kept = cache.row_states[recurrent_key(layer)];
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (i < kept.size())
      kept[i].copy_(states[i]);
    else
      kept.push_back(states[i].detach().clone());
  }
}

}  // namespace easydel
