// Letters: T tokens, E experts, R rows sorted by expert, D hidden, I intermediate.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <numeric>

#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/rows.h"
#include "easydel/operations/moe_products.h"
#include "easydel/operations/product.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// f(task) for each of them, by threads that take the next one as they come free. Whatever f calls is of one thread, and
// has no gradient.
template <class F>
void for_tasks(int64_t tasks, const F& f) {
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min<int64_t>(tasks, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    const at::NoGradGuard no_grad;
    for (int64_t task = next++; task < tasks; task = next++) f(task);
  });
}

// Some rows of one expert.
struct Tile {
  int64_t expert, begin, rows;
};

// Small enough that threads end at about the same time, large enough for fast products; the largest first.
std::vector<Tile> make_tiles(const std::vector<int64_t>& ends) {
  constexpr int64_t kFewest = 128, kMost = 1024;
  const int64_t total = ends.empty() ? 0 : ends.back(), threads = at::get_num_threads();
  const int64_t size = threads == 1 ? kMost : std::clamp(total / (8 * threads), kFewest, kMost);
  std::vector<Tile> tiles;
  int64_t begin = 0;
  for (std::size_t e = 0; e < ends.size(); begin = ends[e++]) {
    const int64_t rows = ends[e] - begin, pieces = (rows + size - 1) / size;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t first = rows * p / pieces, last = rows * (p + 1) / pieces;
      tiles.push_back({static_cast<int64_t>(e), begin + first, last - first});
    }
  }
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.rows > b.rows; });
  return tiles;
}

// out[t] = the sum of its k rows, each times its weight where there are weights. `rows[r]` is where row r begins.
template <class T>
void sum_rows(const std::vector<const T*>& rows, const int64_t* inverse, const T* weights, T* out, int64_t tokens,
              int64_t top_k, int64_t width) {
  using Wide = at::opmath_type<T>;
  kernels::for_rows(tokens, width * top_k, [&](int64_t begin, int64_t end) {
    std::vector<Wide> sum(static_cast<std::size_t>(width));
    for (int64_t t = begin; t < end; ++t) {
      std::fill(sum.begin(), sum.end(), Wide(0));
      for (int64_t k = 0; k < top_k; ++k) {
        const T* row = rows[static_cast<std::size_t>(inverse[t * top_k + k])];
        const Wide weight = weights ? Wide(weights[t * top_k + k]) : Wide(1);
        for (int64_t i = 0; i < width; ++i) sum[static_cast<std::size_t>(i)] += weight * Wide(row[i]);
      }
      for (int64_t i = 0; i < width; ++i) out[t * width + i] = T(sum[static_cast<std::size_t>(i)]);
    }
  });
}

// The results of tiles, back in the order of the tokens.
Tensor combine_tiles(const std::vector<Tile>& tiles, const std::vector<Tensor>& results, const Tensor& inverse,
                     const Tensor& weights, const Tensor& like) {
  const int64_t tokens = like.size(0), width = like.size(1), top_k = tokens ? inverse.numel() / tokens : 0;
  const Tensor out = at::empty({tokens, width}, like.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, like.scalar_type(), "combine_tiles", [&] {
    std::vector<const scalar_t*> rows(static_cast<std::size_t>(inverse.numel()));
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const auto* first = results[i].const_data_ptr<scalar_t>();
      for (int64_t r = 0; r < tiles[i].rows; ++r)
        rows[static_cast<std::size_t>(tiles[i].begin + r)] = first + r * width;
    }
    const Tensor factors = weights.defined() ? weights.to(like.scalar_type()).contiguous() : Tensor();
    sum_rows<scalar_t>(rows, inverse.const_data_ptr<int64_t>(),
                       factors.defined() ? factors.const_data_ptr<scalar_t>() : nullptr,
                       out.mutable_data_ptr<scalar_t>(), tokens, top_k, width);
  });
  return out;
}

// d_weight[r] = d_a[r] . a[r], and then both rows times their weight.
template <class T>
void weigh_rows(T* a, T* d_a, const T* weights, T* d_weights, int64_t rows, int64_t width) {
  using Wide = at::opmath_type<T>;
  for (int64_t r = 0; r < rows; ++r, a += width, d_a += width) {
    Wide dot = 0;
    const Wide factor = weights[r];
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i) {
      dot += Wide(a[i]) * Wide(d_a[i]);
      a[i] = T(Wide(a[i]) * factor);
      d_a[i] = T(Wide(d_a[i]) * factor);
    }
    d_weights[r] = T(dot);
  }
}

void weigh(const Tensor& a, const Tensor& d_a, const Tensor& weights, const Tensor& d_weights) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, a.scalar_type(), "weigh", [&] {
    weigh_rows(a.mutable_data_ptr<scalar_t>(), d_a.mutable_data_ptr<scalar_t>(), weights.const_data_ptr<scalar_t>(),
               d_weights.mutable_data_ptr<scalar_t>(), a.size(0), a.size(1));
  });
}

struct Holder : torch::CustomClassHolder {
  const Activation* act = nullptr;
  WeightAccessPtr gate_up_access, down_access;
  std::vector<Tile> tiles;
};

struct FusedExperts : torch::autograd::Function<FusedExperts> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights, const Tensor& gate_up,
                        const Tensor& down, const StackedExperts& experts, const Dispatch& dispatch) {
    auto holder = c10::make_intrusive<Holder>();
    holder->act = experts.act;
    holder->gate_up_access = experts.gate_up_access;
    holder->down_access = experts.down_access;
    holder->tiles = make_tiles(dispatch.host_ends);
    const std::vector<Tile>& tiles = holder->tiles;
    const Tensor w1 = gather(gate_up, x.scalar_type(), experts.gate_up_access);
    const Tensor w2 = gather(down, x.scalar_type(), experts.down_access);
    const Tensor tokens = at::div(dispatch.order, dispatch.top_k, "floor");
    std::vector<Tensor> hidden(tiles.size()), results(tiles.size());
    for_tasks(static_cast<int64_t>(tiles.size()), [&](int64_t task) {
      const Tile& tile = tiles[static_cast<std::size_t>(task)];
      const Tensor rows = x.index_select(0, tokens.narrow(0, tile.begin, tile.rows));
      Tensor& h = hidden[static_cast<std::size_t>(task)];
      h = product(rows, w1.select(0, tile.expert));
      results[static_cast<std::size_t>(task)] = product(gated_activation(h, *experts.act), w2.select(0, tile.expert));
    });
    variable_list saved{x, weights, gate_up, down, tokens, dispatch.order, dispatch.inverse};
    saved.insert(saved.end(), hidden.begin(), hidden.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["holder"] = c10::IValue::make_capsule(holder);
    return combine_tiles(tiles, results, dispatch.inverse, weights, x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("fused_experts");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weights = saved[1], &gate_up = saved[2], &down = saved[3], &tokens = saved[4];
    const Tensor &order = saved[5], &inverse = saved[6], d_y = grads[0].contiguous();
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["holder"].toCapsule());
    const std::vector<Tile>& tiles = holder->tiles;
    const bool needs_x = ctx->needs_input_grad(0), needs_w1 = ctx->needs_input_grad(2),
               needs_w2 = ctx->needs_input_grad(3);
    const Tensor w1 = gather(gate_up, x.scalar_type(), holder->gate_up_access);
    const Tensor w2 = gather(down, x.scalar_type(), holder->down_access);
    const int64_t count = order.numel(), inner = w2.size(2);
    const auto rows_of = [&](int64_t width) { return at::empty({count, width}, x.options()); };
    const Tensor factors = weights.to(x.scalar_type()).reshape({-1}).index_select(0, order);
    // What the weights' gradients are made of, sorted by expert.
    const Tensor x_rows = rows_of(x.size(1)), d_rows = rows_of(x.size(1)), activated = rows_of(inner);
    const Tensor d_hidden = rows_of(2 * inner), d_factors = at::empty_like(factors);
    std::vector<Tensor> d_inputs(tiles.size());
    for_tasks(static_cast<int64_t>(tiles.size()), [&](int64_t task) {
      const Tile& tile = tiles[static_cast<std::size_t>(task)];
      const auto own = [&](const Tensor& rows) { return rows.narrow(0, tile.begin, tile.rows); };
      Tensor d_row = own(d_rows), x_row = own(x_rows);
      const Tensor& h = saved[7 + static_cast<std::size_t>(task)];
      at::index_select_out(d_row, d_y, 0, own(tokens));
      if (needs_w1) at::index_select_out(x_row, x, 0, own(tokens));
      const Tensor d_a = product(d_row, w2.select(0, tile.expert).t());
      own(activated).copy_(gated_activation(h, *holder->act));
      weigh(own(activated), d_a, own(factors), own(d_factors));
      gated_activation_backward(h, *holder->act, d_a, own(d_hidden));
      if (needs_x) d_inputs[static_cast<std::size_t>(task)] = product(own(d_hidden), w1.select(0, tile.expert).t());
    });
    Tensor d_w1 = needs_w1 ? at::empty_like(w1) : Tensor(), d_w2 = needs_w2 ? at::empty_like(w2) : Tensor();
    multiply_rows(tiles, d_w1, d_hidden, x_rows, d_w2, d_rows, activated);
    const Tensor d_x = needs_x ? combine_tiles(tiles, d_inputs, inverse, {}, x) : Tensor();
    const Tensor d_weights = d_factors.index_select(0, inverse).view(weights.sizes()).to(weights.scalar_type());
    return {d_x,
            d_weights,
            needs_w1 ? reduce(d_w1, holder->gate_up_access).to(gate_up.scalar_type()) : Tensor(),
            needs_w2 ? reduce(d_w2, holder->down_access).to(down.scalar_type()) : Tensor(),
            Tensor(),
            Tensor()};
  }

  // d_w1[e] and d_w2[e], in pieces of about the same cost: of the rows of the one and of the other.
  static void multiply_rows(const std::vector<Tile>& tiles, const Tensor& d_w1, const Tensor& d_hidden,
                            const Tensor& x_rows, const Tensor& d_w2, const Tensor& d_rows, const Tensor& activated) {
    const Tensor& any = d_w1.defined() ? d_w1 : d_w2;
    if (!any.defined()) return;
    std::vector<Tile> experts;
    for (int64_t e = 0; e < any.size(0); ++e) experts.push_back({e, d_hidden.size(0), 0});
    for (const Tile& tile : tiles) {
      Tile& expert = experts[static_cast<std::size_t>(tile.expert)];
      expert.begin = std::min(expert.begin, tile.begin);
      expert.rows += tile.rows;
    }
    std::vector<MatrixProduct> products;
    const auto add = [&](const Tensor& target, const Tensor& left, const Tensor& right) {
      if (!target.defined()) return;
      for (const Tile& expert : experts) {
        const int64_t begin = expert.rows > 0 ? expert.begin : 0;
        products.push_back({target.select(0, expert.expert), left.narrow(0, begin, expert.rows).t(),
                            right.narrow(0, begin, expert.rows)});
      }
    };
    add(d_w1, d_hidden, x_rows);
    add(d_w2, d_rows, activated);
    multiply_into(products);
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
  const Tensor hidden =
      grouped_linear(dispatch_rows(x, dispatch), experts.gate_up, {}, dispatch, {.access = experts.gate_up_access});
  const Tensor done = grouped_linear(gated_activation(hidden, *experts.act), experts.down, {}, dispatch,
                                     {.access = experts.down_access});
  return combine_rows(done, weights, dispatch);
}

}  // namespace easydel::operations
