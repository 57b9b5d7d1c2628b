#include "easydel/optim/rules/elementwise.h"

#include <ATen/ATen.h>

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

// Some parameters, or a part of one.
struct Elementwise::Piece {
  std::size_t from, to;  // range of items
  int64_t begin, size;   // range of elements, if it is one item
  bool whole;
};

namespace {

// On the CPU small enough to stay in cache over several passes; elsewhere large enough to amortize a kernel launch.
int64_t piece_elements(const at::Tensor& tensor) { return int64_t{1} << (tensor.is_cpu() ? 15 : 24); }

// Contiguous, in the same memory order in each.
bool same_memory_order(const std::vector<Tensors>& lists, std::size_t i) {
  for (const Tensors& list : lists) {
    if (!list[i].is_non_overlapping_and_dense() || list[i].strides() != lists[0][i].strides()) return false;
  }
  return true;
}

}  // namespace

void Elementwise::run_all(const Items& items, const OptState& state, int64_t step) const {
  std::vector<Tensors> lists{items.updates, items.params};  // and the moments
  for (const Moment& moment : moments_) lists.push_back(leaves_of(kind_, state, moment.name, items));
  std::vector<bool> chosen;
  std::vector<Piece> pieces;
  int64_t room = -1;  // in the last piece, if it can grow
  bool on_cpu = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    chosen.push_back(chooses(items.paths[i], items.params[i]));
    on_cpu &= items.updates[i].is_cpu();
    const int64_t limit = piece_elements(items.updates[i]), numel = items.updates[i].numel();
    if (numel > limit && same_memory_order(lists, i)) {
      for (int64_t begin = 0; begin < numel; begin += limit) {
        pieces.push_back({i, i + 1, begin, std::min(limit, numel - begin), false});
      }
      room = -1;
    } else if (numel <= room) {
      pieces.back().to = i + 1;
      room -= numel;
    } else {
      pieces.push_back({i, i + 1, 0, numel, true});
      room = limit - numel;
    }
  }
  const double rate_now = rate(step);
  const auto run_piece = [&](const Piece& piece) {
    std::vector<Tensors> taken(lists.size());
    for (std::size_t list = 0; list < lists.size(); ++list) {
      for (std::size_t i = piece.from; i < piece.to; ++i) {
        const at::Tensor& t = lists[list][i];
        taken[list].push_back(piece.whole ? t : t.as_strided({piece.size}, {1}, t.storage_offset() + piece.begin));
      }
    }
    Batch batch{
        .updates = widen(taken[0]), .params = taken[1], .moments = {}, .chosen = {}, .step = step, .rate = rate_now};
    for (std::size_t i = piece.from; i < piece.to; ++i) batch.chosen.push_back(chosen[i]);
    for (std::size_t m = 2; m < taken.size(); ++m) batch.moments.push_back(widen(taken[m]));
    run(batch);
    narrow_into(taken[0], batch.updates);
    for (std::size_t m = 2; m < taken.size(); ++m) narrow_into(taken[m], batch.moments[m - 2]);
  };
  for_each_on_threads(on_cpu, pieces.size(), [&](std::size_t i) { run_piece(pieces[i]); });
}

}  // namespace easydel::optim
