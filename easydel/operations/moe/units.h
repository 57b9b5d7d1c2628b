// How a fused operation processes the rows of experts: in units, by threads that share a unit or have their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "easydel/operations/linear/product.h"

namespace easydel::operations {

// Some rows of one expert.
struct Tile {
  int64_t expert, begin, rows;
};

// Rows that are processed together: of one expert, or of consecutive experts.
struct Unit {
  int64_t begin = 0, rows = 0;
  std::vector<Tile> tiles;
};

// If threads share each product, units are sequential: large enough for that, and small enough that the intermediates
// stay in cache. Else each thread has its own units: small enough that threads finish at about the same time, large
// enough for fast products; the largest first. No unit has two pieces of one expert.
std::vector<Unit> make_units(const std::vector<int64_t>& ends, bool shares);

// Rows of a unit, all its own or those of its tokens.
struct UnitRows {
  at::Tensor rows, tokens = {};  // [rows of the unit, ...]; or [T, ...] and [R]

  Factor of(const Unit& unit, const Tile& tile) const {
    if (!tokens.defined()) return rows.narrow(0, tile.begin - unit.begin, tile.rows);
    return {rows, 0, tokens.narrow(0, tile.begin, tile.rows)};
  }
};

// c = a times its expert's matrix, for each row of a unit.
template <class F>
void add_products(std::vector<MatrixProduct>& products, const Unit& unit, const at::Tensor& c, const UnitRows& a,
                  const F& matrix_of) {
  for (const Tile& tile : unit.tiles) {
    const at::Tensor own = c.narrow(0, tile.begin - unit.begin, tile.rows);
    products.push_back({own, a.of(unit, tile), matrix_of(tile.expert)});
  }
}

// The gradients of stacked weights, unit by unit. Either may be missing.
struct WeightGradients {
  at::Tensor w1, w2;
  int64_t last = -1;  // the expert whose rows came last

  void add_products(std::vector<MatrixProduct>& products, const Unit& unit, const UnitRows& d_hidden, const UnitRows& x,
                    const UnitRows& d_y, const UnitRows& activated);

  void clear_others(const std::vector<Unit>& units) const;  // those without rows
};

}  // namespace easydel::operations
