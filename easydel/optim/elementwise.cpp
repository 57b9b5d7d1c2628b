#include "easydel/optim/elementwise.h"

#include <ATen/ATen.h>

namespace easydel::optim {

OptState Elementwise::init(const TensorMap& params, const Placement& placement) const {
  OptState state{.kind = kind_};
  if (counts_) state.counts["count"] = 0;
  for (const Moment& moment : moments_) {
    state.trees[moment.name] = full_like(params, placement, moment.value, moment.dtype);
  }
  return state;
}

int64_t Elementwise::advance(OptState& state) const {
  check_state(state, kind_);
  return counts_ ? state.counts["count"]++ : 0;
}

void Elementwise::update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement&) const {
  const at::NoGradGuard no_grad;
  const Items items = collect(kind_, updates, params);
  run_all(items, state, advance(state));
}

void Elementwise::run_all(const Items& items, const OptState& state, int64_t step) const {
  std::vector<Tensors> stored;
  for (const Moment& moment : moments_) stored.push_back(leaves_of(kind_, state, moment.name, items));
  for_batches(items.updates, [&](std::size_t begin, std::size_t end) {
    const Tensors updates = range(items.updates, begin, end);
    Batch batch{.updates = widen(updates), .params = range(items.params, begin, end), .moments = {}, .paths = {}};
    batch.paths.assign(items.paths.begin() + static_cast<std::ptrdiff_t>(begin),
                       items.paths.begin() + static_cast<std::ptrdiff_t>(end));
    for (const Tensors& moment : stored) batch.moments.push_back(widen(range(moment, begin, end)));
    run(batch, step);
    narrow_into(updates, batch.updates);
    for (std::size_t m = 0; m < stored.size(); ++m) narrow_into(range(stored[m], begin, end), batch.moments[m]);
  });
}

}  // namespace easydel::optim
