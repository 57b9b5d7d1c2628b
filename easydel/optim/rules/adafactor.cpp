#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "easydel/core/error.h"

#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/share.h"

namespace easydel::optim {
namespace {

// The two largest dimensions of the full parameter: rows sum over the larger, columns over the other.
struct Factors {
  int64_t row_dim, col_dim;  // what each sums over
};

std::optional<Factors> factors_of(const std::vector<int64_t>& shape, const AdafactorOptions& o) {
  if (!o.factored || shape.size() < 2) return std::nullopt;
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shape[a] < shape[b]; });
  const std::size_t larger = order[order.size() - 1], smaller = order[order.size() - 2];
  if (shape[smaller] < o.min_dim_size_to_factor) return std::nullopt;
  return Factors{static_cast<int64_t>(larger), static_cast<int64_t>(smaller)};
}

Slices without(Slices slices, int64_t dim) {
  slices.erase(slices.begin() + dim);
  return slices;
}

// The sharding of a weight after summing over a dimension; null if it cannot be derived, so that every rank keeps all
// of it.
std::shared_ptr<const WeightSharding> reduced(const std::shared_ptr<const WeightSharding>& sharding, int64_t dim,
                                              const Placement& placement) {
  if (!sharding) return nullptr;
  const auto share = share_of(sharding);
  std::vector<Dim> dims;
  std::vector<SpecDim> spec;
  for (std::size_t d = 0; d < share->shape.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) continue;
    dims.emplace_back(share->shape[d]);
    spec.emplace_back(share->axes[d]);
  }
  auto rest =
      std::make_shared<const WeightSharding>(std::move(dims), PartitionSpec(std::move(spec)), placement.parallel);
  if (rest->is_whole()) return nullptr;
  for (int64_t rank = 0; rank < placement.parallel->mesh().mesh().size(); ++rank) {
    if (rest->stored(rank) != without(sharding->stored(rank), dim)) return nullptr;
  }
  return rest;
}

class FactoredRms : public Transformation {
 public:
  explicit FactoredRms(AdafactorOptions options) : o_(std::move(options)) {
    check_not_negative("adafactor", "decay_rate", o_.decay_rate);
    check_not_negative("adafactor", "eps", o_.eps);
  }

  OptState init(const TensorMap& params, const Placement& placement) const override {
    OptState state{.kind = kKind, .counts = {{"count", 0}}};
    auto& rows = state.trees["v_row"];
    auto& cols = state.trees["v_col"];
    auto& full = state.trees["v"];
    for (const auto& [path, param] : params) {
      if (!at::isFloatingType(param.scalar_type())) continue;
      const auto sharding = sharding_of(placement, path);
      const std::vector<int64_t> shape = whole_shape(param, sharding);
      const auto options = param.options().requires_grad(false);
      if (const auto factors = factors_of(shape, o_)) {
        rows[path] = factor_leaf(shape, factors->row_dim, sharding, placement, options);
        cols[path] = factor_leaf(shape, factors->col_dim, sharding, placement, options);
      } else {
        full[path] = {at::zeros_like(param, options), sharding};
      }
    }
    return state;
  }

  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    const at::NoGradGuard no_grad;
    check_state(state, kKind);
    const Items items = collect(kKind, updates, params);
    const auto t = static_cast<double>(state.counts["count"]++ - o_.decay_offset + 1);
    const double decay = 1 - std::pow(t, -o_.decay_rate);
    Items single;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto sharding = sharding_of(placement, items.paths[i]);
      const auto factors = factors_of(whole_shape(items.params[i], sharding), o_);
      if (factors) {
        const auto row = state.trees["v_row"].find(items.paths[i]), col = state.trees["v_col"].find(items.paths[i]);
        require<ConfigError>(row != state.trees["v_row"].end() && col != state.trees["v_col"].end(), "[", kKind,
                             "] the state is for other parameters: v_row has no entry for \"", items.paths[i], "\".");
        update_factored(items.updates[i], row->second, col->second, *factors, decay, sharding, placement);
      } else {
        single.paths.push_back(items.paths[i]);
        single.params.push_back(items.params[i]);
        single.updates.push_back(items.updates[i]);
      }
    }
    const Tensors v = leaves_of(kKind, state, "v", single);
    for (std::size_t i = 0; i < single.size(); ++i) {
      const at::Tensor g = widen({single.updates[i]})[0], moment = widen({v[i]})[0];
      moment.mul_(decay).add_(g.square().add_(o_.eps), 1 - decay);
      g.mul_(moment.rsqrt());
      narrow_into({single.updates[i], v[i]}, {g, moment});
    }
  }

 private:
  static OptState::Leaf factor_leaf(std::vector<int64_t> shape, int64_t dim,
                                    const std::shared_ptr<const WeightSharding>& sharding, const Placement& placement,
                                    const at::TensorOptions& options) {
    shape.erase(shape.begin() + dim);
    auto left = reduced(sharding, dim, placement);
    return {at::zeros(left ? left->stored_shape() : shape, options), left};
  }

  // A factor's leaf covers the indices of this rank's part of the parameter, or all of them.
  static bool holds_all(const OptState::Leaf& leaf, const std::shared_ptr<const WeightSharding>& sharding) {
    return sharding && !leaf.sharding;
  }

  // Accumulates the mean over `dim` into the leaf; returns the part that matches the gradient, in float32 at least,
  // with the dimension kept.
  at::Tensor advance(OptState::Leaf& leaf, const at::Tensor& squares, int64_t dim, int64_t size, double decay,
                     const std::shared_ptr<const WeightSharding>& sharding, const Placement& placement) const {
    const at::Tensor mean = sum_over(squares, dim, sharding).div_(static_cast<double>(size)).squeeze(dim);
    const bool all = holds_all(leaf, sharding);
    const Slices places = all ? without(sharding->stored(), dim) : Slices();
    const at::Tensor held = all ? take(leaf.value, places) : leaf.value;
    const at::Tensor moment = held.to(mean.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    moment.mul_(decay).add_(mean, 1 - decay);
    if (all) {
      store_all(leaf, moment, dim, sharding, placement);
    } else {
      leaf.value.copy_(moment);
    }
    // The stored part is the part to compute with.
    return moment.to(leaf.value.scalar_type()).to(moment.scalar_type()).unsqueeze(dim);
  }

  // Each index from the rank that counts it.
  static void store_all(OptState::Leaf& leaf, const at::Tensor& moment, int64_t dim,
                        const std::shared_ptr<const WeightSharding>& sharding, const Placement& placement) {
    const auto share = share_of(sharding);
    const at::Tensor sum = at::zeros_like(leaf.value, leaf.value.options().dtype(moment.scalar_type()));
    const AxisNames& over = share->axes[static_cast<std::size_t>(dim)];
    const bool first = over.empty() || placement.parallel->group(over).rank() == 0;
    if (share->counts && first) {
      const Slices counted = without(share->counted, dim);
      Slices places;
      const Slices stored = without(sharding->stored(), dim);
      for (std::size_t d = 0; d < counted.size(); ++d) {
        Intervals there;
        for (const Interval& i : counted[d]) {
          for (const Interval& j : sub_intervals(stored[d], i)) there.push_back(j);
        }
        places.push_back(std::move(there));
      }
      put(sum, places, take(moment, counted));
    }
    all_reduce(sum, placement);
    leaf.value.copy_(sum);
  }

  void update_factored(const at::Tensor& gradient, OptState::Leaf& row, OptState::Leaf& col, const Factors& f,
                       double decay, const std::shared_ptr<const WeightSharding>& sharding,
                       const Placement& placement) const {
    const at::Tensor g = widen({gradient})[0];
    const std::vector<int64_t> shape = whole_shape(gradient, sharding);
    const int64_t rows = shape[static_cast<std::size_t>(f.row_dim)], cols = shape[static_cast<std::size_t>(f.col_dim)];
    at::Tensor squares = g.square().add_(o_.eps);
    const at::Tensor v_row = advance(row, squares, f.row_dim, rows, decay, sharding, placement);
    const at::Tensor v_col = advance(col, squares, f.col_dim, cols, decay, sharding, placement);
    squares.reset();
    const at::Tensor mean = sum_over(v_row, f.col_dim, sharding).div_(static_cast<double>(cols));
    g.mul_((v_row / mean).rsqrt_()).mul_(v_col.rsqrt());
    narrow_into({gradient}, {g});
  }

  static constexpr const char* kKind = "scale_by_factored_rms";
  AdafactorOptions o_;
};

}  // namespace

GradientTransformation scale_by_factored_rms(const AdafactorOptions& options) {
  return std::make_shared<FactoredRms>(options);
}

GradientTransformation adafactor(const AdafactorOptions& o) {
  std::vector<GradientTransformation> parts{scale_by_factored_rms(o)};
  if (o.clipping_threshold) parts.push_back(clip_by_block_rms(*o.clipping_threshold));
  if (o.learning_rate) {
    check_rate("adafactor", "learning_rate", *o.learning_rate);
    parts.push_back(scale_by_learning_rate(*o.learning_rate, /*flip_sign=*/false));
  }
  if (o.multiply_by_parameter_scale) parts.push_back(scale_by_param_block_rms());
  if (o.momentum) {
    parts.push_back(ema({.decay = *o.momentum, .debias = false, .accumulator_dtype = o.dtype_momentum}));
  }
  if (o.weight_decay_rate) parts.push_back(add_decayed_weights(*o.weight_decay_rate, o.weight_decay_mask));
  parts.push_back(scale(-1));
  return chain(std::move(parts));
}

GradientTransformation adafactor(const Schedule& learning_rate) {
  return adafactor(AdafactorOptions{.learning_rate = learning_rate});
}

}  // namespace easydel::optim
