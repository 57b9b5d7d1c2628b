#include "easydel/optim/elementwise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

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

namespace {

// On the CPU what several passes find in the cache; elsewhere enough for a kernel to be worth its launch.
int64_t batch_elements(const at::Tensor& tensor) {
  return tensor.is_cpu() ? (int64_t{1} << 15) * at::get_num_threads() : int64_t{1} << 24;
}

// One after the other in memory, in the same order in each.
bool lie_alike(const Tensors& tensors) {
  for (const at::Tensor& t : tensors) {
    if (!t.is_non_overlapping_and_dense() || t.strides() != tensors[0].strides()) return false;
  }
  return true;
}

}  // namespace

void Elementwise::run_all(const Items& items, const OptState& state, int64_t step) const {
  std::vector<Tensors> stored;
  for (const Moment& moment : moments_) stored.push_back(leaves_of(kind_, state, moment.name, items));
  std::vector<Tensors> lists(2 + stored.size());  // updates, params, moments
  std::vector<bool> chosen;
  int64_t elements = 0;
  const auto flush = [&] {
    if (chosen.empty()) return;
    Batch batch{.updates = widen(lists[0]), .params = lists[1], .moments = {}, .chosen = chosen};
    for (std::size_t m = 0; m < stored.size(); ++m) batch.moments.push_back(widen(lists[2 + m]));
    run(batch, step);
    narrow_into(lists[0], batch.updates);
    for (std::size_t m = 0; m < stored.size(); ++m) narrow_into(lists[2 + m], batch.moments[m]);
    for (Tensors& list : lists) list.clear();
    chosen.clear();
    elements = 0;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    Tensors together{items.updates[i], items.params[i]};
    for (const Tensors& moment : stored) together.push_back(moment[i]);
    const bool choice = chooses(items.paths[i], items.params[i]);
    const int64_t limit = batch_elements(items.updates[i]), numel = items.updates[i].numel();
    const auto add = [&](const std::function<at::Tensor(const at::Tensor&)>& part, int64_t size) {
      if (elements + size > limit) flush();
      for (std::size_t t = 0; t < together.size(); ++t) lists[t].push_back(part(together[t]));
      chosen.push_back(choice);
      elements += size;
    };
    if (numel <= limit || !lie_alike(together)) {
      add([](const at::Tensor& t) { return t; }, numel);
      continue;
    }
    for (int64_t begin = 0; begin < numel; begin += limit) {
      const int64_t size = std::min(limit, numel - begin);
      add([&](const at::Tensor& t) { return t.as_strided({size}, {1}, t.storage_offset() + begin); }, size);
    }
  }
  flush();
}

}  // namespace easydel::optim
