// Letters: T tokens, E experts, R rows sorted by expert, D hidden, I intermediate.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/files/large_pages.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/linear/product.h"
#include "easydel/operations/moe/row_work.h"
#include "easydel/operations/moe/staged.h"
#include "easydel/operations/moe/units.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// out[t] = the sum of its k rows, each times its weight where there are weights. `rows[r]` is where row r begins.
template <class T>
void sum_rows(const std::vector<const T*>& rows, const int64_t* inverse, const T* weights, T* out, int64_t tokens,
              int64_t top_k, int64_t width) {
  using Wide = at::opmath_type<T>;
  for_rows(tokens, width * top_k, [&](int64_t begin, int64_t end) {
    std::vector<Wide> space(static_cast<std::size_t>(width));
    Wide* sum = space.data();
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t k = 0; k < top_k; ++k) {
        const T* row = rows[static_cast<std::size_t>(inverse[t * top_k + k])];
        const Wide weight = weights ? Wide(weights[t * top_k + k]) : Wide(1);
        if (k == 0) {
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) sum[i] = weight * Wide(row[i]);
        } else {
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) sum[i] += weight * Wide(row[i]);
        }
      }
      T* to = out + t * width;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = T(sum[i]);
    }
  });
}

// The results of units, back in the order of the tokens.
Tensor combine_units(const std::vector<Unit>& units, const std::vector<Tensor>& results, const Tensor& inverse,
                     const Tensor& weights, const Tensor& like) {
  const int64_t tokens = like.size(0), width = like.size(1), top_k = tokens ? inverse.numel() / tokens : 0;
  const Tensor out = at::empty({tokens, width}, like.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, like.scalar_type(), "combine_units", [&] {
    std::vector<const scalar_t*> rows(static_cast<std::size_t>(inverse.numel()));
    for (std::size_t i = 0; i < units.size(); ++i) {
      const auto* first = results[i].const_data_ptr<scalar_t>();
      for (int64_t r = 0; r < units[i].rows; ++r)
        rows[static_cast<std::size_t>(units[i].begin + r)] = first + r * width;
    }
    const Tensor factors = weights.defined() ? weights.to(like.scalar_type()).contiguous() : Tensor();
    sum_rows<scalar_t>(rows, inverse.const_data_ptr<int64_t>(),
                       factors.defined() ? factors.const_data_ptr<scalar_t>() : nullptr,
                       out.mutable_data_ptr<scalar_t>(), tokens, top_k, width);
  });
  return out;
}

Tensor empty_like_large(const Tensor& w) {
  constexpr std::size_t kMmapThreshold = 32 << 20;  // from this size on malloc maps each allocation separately
  return empty_in_large_pages(w.sizes(), w.options(), kMmapThreshold);
}

// Each thread has units of its own.
ForwardRows forward_by_units(const RoutedRows& r) {
  ForwardRows out{std::vector<Tensor>(r.units.size()), std::vector<Tensor>(r.units.size())};
  for_units(r.units.size(), [&](std::size_t i) {
    const Unit& unit = r.units[i];
    const auto multiply = [&](const Tensor& from, const Tensor& w) {
      const Tensor y = at::empty({unit.rows, w.size(1)}, r.x.options());
      std::vector<MatrixProduct> products;
      add_products(products, unit, y, {from}, [&](int64_t expert) { return w.select(0, expert).t(); });
      multiply_into(products);
      return y;
    };
    out.hidden[i] = multiply(r.x.index_select(0, r.tokens.narrow(0, unit.begin, unit.rows)), r.w1);
    out.results[i] = multiply(gated_activation(out.hidden[i], r.act), r.w2);
  });
  return out;
}

// d_w1[e] and d_w2[e], in pieces of about the same cost: of the rows of the one and of the other.
void multiply_rows(const std::vector<Unit>& units, const Tensor& d_w1, const Tensor& d_hidden, const Tensor& x_rows,
                   const Tensor& d_w2, const Tensor& d_rows, const Tensor& activated) {
  const Tensor& any = d_w1.defined() ? d_w1 : d_w2;
  if (!any.defined()) return;
  std::vector<Tile> experts;
  for (int64_t e = 0; e < any.size(0); ++e) experts.push_back({e, d_hidden.size(0), 0});
  for (const Unit& unit : units) {
    for (const Tile& tile : unit.tiles) {
      Tile& expert = experts[static_cast<std::size_t>(tile.expert)];
      expert.begin = std::min(expert.begin, tile.begin);
      expert.rows += tile.rows;
    }
  }
  struct Piece {
    Tensor target, left, right;
    int64_t cost;
  };
  std::vector<Piece> pieces;
  const int64_t share = std::max<int64_t>(256, d_hidden.size(0) / (4 * at::get_num_threads()));
  const auto add = [&](const Tensor& target, const Tensor& left, const Tensor& right) {
    if (!target.defined()) return;
    for (const Tile& expert : experts) {
      const int64_t parts = std::max<int64_t>(1, (expert.rows + share - 1) / share), wide = left.size(1);
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t at = wide * p / parts, size = wide * (p + 1) / parts - at;
        const int64_t begin = expert.rows > 0 ? expert.begin : 0;
        pieces.push_back({target.select(0, expert.expert).narrow(0, at, size),
                          left.narrow(0, begin, expert.rows).narrow(1, at, size), right.narrow(0, begin, expert.rows),
                          expert.rows * size * right.size(1)});
      }
    }
  };
  add(d_w1, d_hidden, x_rows);
  add(d_w2, d_rows, activated);
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.cost > b.cost; });
  for_units(pieces.size(), [&](std::size_t i) {
    Piece& piece = pieces[i];
    at::mm_out(piece.target, piece.left.t(), piece.right);
  });
}

std::vector<Tensor> backward_by_units(const RoutedRows& r, const std::vector<Tensor>& hidden, const Tensor& d_y,
                                      const Tensor& factors, const Tensor& d_factors, const WeightGradients& d_w,
                                      bool needs_x) {
  const int64_t width = r.x.size(1), inner = r.w2.size(2);
  // What the weights' gradients are made of, sorted by expert.
  const auto rows_of = [&](int64_t size) { return at::empty({r.tokens.numel(), size}, r.x.options()); };
  const Tensor all_x = rows_of(width), all_d = rows_of(width), all_activated = rows_of(inner);
  const Tensor all_d_hidden = rows_of(2 * inner);
  std::vector<Tensor> d_inputs(r.units.size());
  for_units(r.units.size(), [&](std::size_t i) {
    const Unit& unit = r.units[i];
    const auto own = [&](const Tensor& rows) { return rows.narrow(0, unit.begin, unit.rows); };
    Tensor d_row = own(all_d), x_row = own(all_x);
    const Tensor activated = own(all_activated), d_a = at::empty({unit.rows, inner}, r.x.options());
    at::index_select_out(d_row, d_y, 0, own(r.tokens));
    if (d_w.w1.defined()) at::index_select_out(x_row, r.x, 0, own(r.tokens));
    std::vector<MatrixProduct> products;
    add_products(products, unit, d_a, {d_row}, [&](int64_t expert) { return r.w2.select(0, expert); });
    multiply_into(products);
    weighted_activation_backward(hidden[i], r.act, {own(factors), own(d_factors)}, d_a, activated, own(all_d_hidden))(
        0, unit.rows);
    if (!needs_x) return;
    products.clear();
    d_inputs[i] = at::empty({unit.rows, width}, r.x.options());
    add_products(products, unit, d_inputs[i], {own(all_d_hidden)}, [&](int64_t e) { return r.w1.select(0, e); });
    multiply_into(products);
  });
  multiply_rows(r.units, d_w.w1, all_d_hidden, all_x, d_w.w2, all_d, all_activated);
  return d_inputs;
}

struct FusedArguments : torch::CustomClassHolder {
  const Activation* act = nullptr;
  WeightAccessPtr gate_up_access, down_access;
  bool shares = false;
  std::vector<Unit> units;
};

struct FusedExperts : torch::autograd::Function<FusedExperts> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights, const Tensor& gate_up,
                        const Tensor& down, const StackedExperts& experts, const Dispatch& dispatch) {
    auto holder = c10::make_intrusive<FusedArguments>();
    holder->act = experts.act;
    holder->gate_up_access = experts.gate_up_access;
    holder->down_access = experts.down_access;
    holder->shares = has_own_kernel(x);
    holder->units = make_units(dispatch.host_ends, holder->shares);
    const std::vector<Unit>& units = holder->units;
    const Tensor w1 = gather(gate_up, x.scalar_type(), experts.gate_up_access);
    const Tensor w2 = gather(down, x.scalar_type(), experts.down_access);
    const Tensor tokens = at::div(dispatch.order, dispatch.top_k, "floor");
    const RoutedRows routed{x, tokens, units, *experts.act, w1, w2};
    const ForwardRows rows = holder->shares ? run_forward(routed) : forward_by_units(routed);
    variable_list saved{x, weights, gate_up, down, tokens, dispatch.order, dispatch.inverse};
    saved.insert(saved.end(), rows.hidden.begin(), rows.hidden.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["holder"] = c10::IValue::make_capsule(holder);
    return combine_units(units, rows.results, dispatch.inverse, weights, x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("fused_experts");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weights = saved[1], &gate_up = saved[2], &down = saved[3], &tokens = saved[4];
    const Tensor &order = saved[5], &inverse = saved[6], d_y = grads[0].contiguous();
    const auto holder = c10::static_intrusive_pointer_cast<FusedArguments>(ctx->saved_data["holder"].toCapsule());
    const std::vector<Unit>& units = holder->units;
    const bool needs_x = ctx->needs_input_grad(0), needs_w1 = ctx->needs_input_grad(2),
               needs_w2 = ctx->needs_input_grad(3);
    const Tensor w1 = gather(gate_up, x.scalar_type(), holder->gate_up_access);
    const Tensor w2 = gather(down, x.scalar_type(), holder->down_access);
    const Tensor factors = weights.to(x.scalar_type()).reshape({-1}).index_select(0, order);
    const Tensor d_factors = at::empty_like(factors);
    WeightGradients d_w{needs_w1 ? empty_like_large(w1) : Tensor(), needs_w2 ? empty_like_large(w2) : Tensor()};
    const RoutedRows routed{x, tokens, units, *holder->act, w1, w2};
    const std::vector<Tensor> hidden(saved.begin() + 7, saved.end());
    const std::vector<Tensor> d_inputs = holder->shares
                                             ? run_backward(routed, hidden, d_y, factors, d_factors, d_w, needs_x)
                                             : backward_by_units(routed, hidden, d_y, factors, d_factors, d_w, needs_x);
    const Tensor d_x = needs_x ? combine_units(units, d_inputs, inverse, {}, x) : Tensor();
    const Tensor d_weights = d_factors.index_select(0, inverse).view(weights.sizes()).to(weights.scalar_type());
    return {d_x,
            d_weights,
            needs_w1 ? reduce(d_w.w1, holder->gate_up_access).to(gate_up.scalar_type()) : Tensor(),
            needs_w2 ? reduce(d_w.w2, holder->down_access).to(down.scalar_type()) : Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

Tensor fused_experts(const Tensor& x, const Tensor& weights, const StackedExperts& experts, const Dispatch& dispatch) {
  require<ShapeError>(
      x.dim() == 2 && weights.dim() == 2 && weights.size(0) == x.size(0) && weights.numel() == dispatch.order.numel(),
      "[fused_experts] x must be [tokens, features] and weights [tokens, ", dispatch.top_k, "]; got ", x.sizes(),
      " and ", weights.sizes(), ".");
  if (x.is_cpu() && x.numel() > 0)
    return FusedExperts::apply(x.contiguous(), weights, experts.gate_up, experts.down, experts, dispatch);
  if (can_fuse_on_cuda(x, experts)) return fused_experts_on_cuda(x, weights, experts, dispatch);
  const Tensor hidden =
      grouped_linear(dispatch_rows(x, dispatch), experts.gate_up, {}, dispatch, {.access = experts.gate_up_access});
  const Tensor done = grouped_linear(gated_activation(hidden, *experts.act), experts.down, {}, dispatch,
                                     {.access = experts.down_access});
  return combine_rows(done, weights, dispatch);
}

}  // namespace easydel::operations
