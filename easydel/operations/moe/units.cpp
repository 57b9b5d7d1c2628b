#include "easydel/operations/moe/units.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace easydel::operations {

using at::Tensor;

std::vector<Unit> make_units(const std::vector<int64_t>& ends, bool shares) {
  constexpr int64_t kMin = 128, kMax = 1024, kMinShared = kMax / 2;  // no more than any of several pieces
  const int64_t total = ends.empty() ? 0 : ends.back(), threads = at::get_num_threads();
  const int64_t size = threads == 1 || shares ? kMax : std::clamp(total / (8 * threads), kMin, kMax);
  std::vector<Unit> units;
  int64_t begin = 0;
  for (std::size_t e = 0; e < ends.size(); begin = ends[e++]) {
    const int64_t rows = ends[e] - begin, pieces = (rows + size - 1) / size;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t first = rows * p / pieces, last = rows * (p + 1) / pieces;
      if (units.empty() || !shares || units.back().rows >= kMinShared) units.push_back({begin + first, 0, {}});
      units.back().rows += last - first;
      units.back().tiles.push_back({static_cast<int64_t>(e), begin + first, last - first});
    }
  }
  if (!shares)
    std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.rows > b.rows; });
  return units;
}

void WeightGradients::add_products(std::vector<MatrixProduct>& products, const Unit& unit, const UnitRows& d_hidden,
                                   const UnitRows& x, const UnitRows& d_y, const UnitRows& activated) {
  for (const Tile& tile : unit.tiles) {
    const auto own = [&](const UnitRows& rows) { return rows.of(unit, tile); };
    const bool adds = tile.expert == last;
    if (w1.defined()) products.push_back({w1.select(0, tile.expert), own(d_hidden).t(), own(x), adds});
    if (w2.defined()) products.push_back({w2.select(0, tile.expert), own(d_y).t(), own(activated), adds});
    last = tile.expert;
  }
}

void WeightGradients::clear_others(const std::vector<Unit>& units) const {
  for (const Tensor& w : {w1, w2}) {
    if (!w.defined()) continue;
    std::vector<bool> has_rows(static_cast<std::size_t>(w.size(0)));
    for (const Unit& unit : units) {
      for (const Tile& tile : unit.tiles) has_rows[static_cast<std::size_t>(tile.expert)] = true;
    }
    for (std::size_t e = 0; e < has_rows.size(); ++e) {
      if (!has_rows[e]) w.select(0, static_cast<int64_t>(e)).zero_();
    }
  }
}

}  // namespace easydel::operations
