// While a unit's rows go through its second products, idle threads start on the next unit's first ones.
#include "easydel/operations/moe/staged.h"

#include <ATen/ATen.h>

#include "easydel/operations/moe/row_work.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;

constexpr int64_t kRowsOfPiece = 32;  // of row-wise operations: few enough to stay in a core's own cache

// Memory that units reuse in turn, so that it stays in cache.
class Ring {
 public:
  Ring(std::size_t size, const std::vector<Unit>& units, int64_t width, const at::TensorOptions& options) {
    int64_t most = 0;
    for (const Unit& unit : units) most = std::max(most, unit.rows);
    for (std::size_t i = 0; i < std::min(size, units.size()); ++i) spaces_.push_back(at::empty({most, width}, options));
  }
  Tensor of(std::size_t unit, int64_t rows) const { return spaces_[unit % spaces_.size()].narrow(0, 0, rows); }

 private:
  std::vector<Tensor> spaces_;
};

// begin(i) is added before end(i - 1).
template <class Begin, class End>
void overlap(std::size_t units, const Begin& begin, const End& end) {
  for (std::size_t i = 0; i <= units; ++i) {
    if (i < units) begin(i);
    if (i > 0) end(i - 1);
  }
}

}  // namespace

ForwardRows run_forward(const RoutedRows& r) {
  const std::size_t count = r.units.size();
  const Ring activated(1, r.units, r.w2.size(2), r.x.options());
  ForwardRows out{std::vector<Tensor>(count), std::vector<Tensor>(count)};
  Stages stages;
  std::vector<std::size_t> up(count), down(count);
  const auto multiply = [&](const Unit& unit, const UnitRows& rows, const Tensor& w, Tensor& y) {
    y = at::empty({unit.rows, w.size(1)}, r.x.options());
    std::vector<MatrixProduct> products;
    add_products(products, unit, y, rows, [&](int64_t expert) { return w.select(0, expert).t(); });
    return product_pieces(products);
  };
  const auto begin = [&](std::size_t i) {
    up[i] = stages.add(multiply(r.units[i], {r.x, r.tokens}, r.w1, out.hidden[i]));
  };
  const auto end = [&](std::size_t i) {
    const Unit& unit = r.units[i];
    const Tensor rows = activated.of(i, unit.rows);
    const auto wait = i < 1 ? std::vector{up[i]} : std::vector{up[i], down[i - 1]};
    const auto gate =
        stages.add(row_pieces(unit.rows, kRowsOfPiece, gated_activation_rows(out.hidden[i], r.act, rows)), wait);
    down[i] = stages.add(multiply(unit, {rows}, r.w2, out.results[i]), {gate});
  };
  overlap(count, begin, end);
  stages.run();
  return out;
}

std::vector<Tensor> run_backward(const RoutedRows& r, const std::vector<Tensor>& hidden, const Tensor& d_y,
                                 const Tensor& factors, const Tensor& d_factors, WeightGradients& d_w, bool needs_x) {
  const std::size_t count = r.units.size();
  const int64_t width = r.x.size(1), inner = r.w2.size(2);
  const auto ring = [&](std::size_t size, int64_t wide) { return Ring(size, r.units, wide, r.x.options()); };
  const Ring all_d_a = ring(2, inner);
  const UnitRows x{r.x, r.tokens}, d_rows{d_y, r.tokens};
  const Ring all_activated = ring(1, inner), all_d_hidden = ring(1, 2 * inner);
  std::vector<Tensor> d_inputs(count);
  Stages stages;
  std::vector<std::size_t> first(count), gate(count), last(count);
  const auto begin = [&](std::size_t i) {
    const Unit& unit = r.units[i];
    std::vector<MatrixProduct> products;
    add_products(products, unit, all_d_a.of(i, unit.rows), d_rows,
                 [&](int64_t expert) { return r.w2.select(0, expert); });
    first[i] = stages.add(product_pieces(products), i < 2 ? std::vector<std::size_t>() : std::vector{gate[i - 2]});
  };
  const auto end = [&](std::size_t i) {
    const Unit& unit = r.units[i];
    const Tensor d_a = all_d_a.of(i, unit.rows), activated = all_activated.of(i, unit.rows);
    const Tensor d_hidden = all_d_hidden.of(i, unit.rows);
    const auto own = [&](const Tensor& all) { return all.narrow(0, unit.begin, unit.rows); };
    const auto backward =
        weighted_activation_backward(hidden[i], r.act, {own(factors), own(d_factors)}, d_a, activated, d_hidden);
    gate[i] = stages.add(row_pieces(unit.rows, kRowsOfPiece, backward),
                         i < 1 ? std::vector{first[i]} : std::vector{first[i], last[i - 1]});
    std::vector<MatrixProduct> products;
    if (needs_x) {
      d_inputs[i] = at::empty({unit.rows, width}, r.x.options());
      add_products(products, unit, d_inputs[i], {d_hidden}, [&](int64_t expert) { return r.w1.select(0, expert); });
    }
    d_w.add_products(products, unit, {d_hidden}, x, d_rows, {activated});
    last[i] = stages.add(product_pieces(products), {gate[i]});
  };
  overlap(count, begin, end);
  stages.run();
  d_w.clear_others(r.units);
  return d_inputs;
}

}  // namespace easydel::operations
