// AdamW whose moments are stored in 8 bits.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/blockwise.h"
#include "easydel/optim/rules/fused.h"
#include "easydel/optim/share.h"

namespace easydel::optim {
namespace {

constexpr const char* kKind = "adamw_8bit";

int64_t block_count(int64_t numel) { return (numel + kBlockSize - 1) / kBlockSize; }

// [n] int64: the index of each element of a rank's part in the flattened full tensor.
at::Tensor places_in_whole(const WeightSharding& sharding, at::Device device) {
  const std::vector<int64_t> shape = sharding.shape();
  const auto options = at::TensorOptions(at::kLong).device(device);
  at::Tensor places = at::zeros(std::vector<int64_t>(shape.size(), 1), options);
  int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    Tensors indices{at::empty({0}, options)};
    for (const Interval& i : sharding.stored()[d]) indices.push_back(at::arange(i.begin, i.end, options));
    std::vector<int64_t> along(shape.size(), 1);
    along[d] = -1;
    places = places + (at::cat(indices) * stride).view(along);
  }
  return places.reshape({-1});
}

// Where a rank's part begins in the flattened full tensor, if it is a run of whole blocks of it.
std::optional<int64_t> run_of_blocks(const WeightSharding& sharding) {
  const std::vector<int64_t> shape = sharding.shape();
  const Slices& stored = sharding.stored();
  const int64_t all = c10::multiply_integers(shape), numel = c10::multiply_integers(sharding.stored_shape());
  if (numel == 0 || shape.empty()) return 0;
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (sharding.stored_shape()[d] != shape[d]) return std::nullopt;
  }
  if (stored[0].size() != 1) return std::nullopt;
  const int64_t begin = stored[0][0].begin * (all / shape[0]);
  const bool ends_a_block = numel % kBlockSize == 0 || begin + numel == all;
  return begin % kBlockSize == 0 && ends_a_block ? std::optional(begin) : std::nullopt;
}

// A parameter and its moments, flat and in row-major order.
struct Work {
  at::Tensor param, update, mu, nu;  // moments: codes, or float32
  at::Tensor absmax;                 // [2, blocks of this part]: of mu, of nu; undefined for moments in float32
  at::Tensor blocks;                 // [n]: each element's block, where they are not in order
  bool decays = false;
};

class Adam8bit : public Transformation {
 public:
  explicit Adam8bit(Adamw8bitOptions options) : o_(std::move(options)) {
    check_rate(kKind, "learning_rate", o_.learning_rate);
    check_decay(kKind, "b1", o_.b1);
    check_decay(kKind, "b2", o_.b2);
    check_not_negative(kKind, "eps", o_.eps);
    check_not_negative(kKind, "weight_decay", o_.weight_decay);
    require<ConfigError>(o_.min_8bit_size >= 0, "[", kKind, "] min_8bit_size must not be negative; got ",
                         o_.min_8bit_size, ".");
  }

  OptState init(const TensorMap& params, const Placement& placement) const override {
    const at::NoGradGuard no_grad;
    OptState state{.kind = kKind, .counts = {{"count", 0}}};
    for (const char* tree : {"mu", "nu", "mu_absmax", "nu_absmax"}) state.trees[tree];
    for (const auto& [path, param] : params) {
      if (!at::isFloatingType(param.scalar_type())) continue;
      const auto sharding = sharding_of(placement, path);
      const bool packed = is_packed(path, param, sharding);
      const at::ScalarType wide = at::promote_types(param.scalar_type(), at::kFloat);
      const auto options = at::TensorOptions(packed ? at::kByte : wide).device(param.device());
      for (const char* tree : {"mu", "nu"}) {
        state.trees[tree][path] = {at::zeros(param.sizes(), options), sharding};
        if (!packed) continue;
        const int64_t blocks = block_count(c10::multiply_integers(whole_shape(param, sharding)));
        state.trees[concat(tree, "_absmax")][path] = {at::zeros({blocks}, options.dtype(at::kFloat)), nullptr};
      }
    }
    return state;
  }

  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    run(updates, state, params, placement, /*applies=*/false);
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    run(gradients, state, params, placement, /*applies=*/true);
  }

 private:
  struct Step {
    double rate, correction1, correction2;
    bool applies;
  };

  bool is_packed(const std::string& path, const at::Tensor& param,
                 const std::shared_ptr<const WeightSharding>& sharding) const {
    const int64_t numel = c10::multiply_integers(whole_shape(param, sharding));
    return numel >= o_.min_8bit_size && numel > 0 && !(o_.full_precision && o_.full_precision(path, param));
  }

  void run(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement,
           bool applies) const {
    const at::NoGradGuard no_grad;
    check_state(state, kKind);
    const Items items = collect(kKind, updates, params);
    const Tensors mu = leaves_of(kKind, state, "mu", items), nu = leaves_of(kKind, state, "nu", items);
    const int64_t count = state.counts["count"]++;
    const auto t = static_cast<double>(count + 1);
    const Step step{.rate = rate_at(kKind, "learning_rate", o_.learning_rate, count),
                    .correction1 = 1 - std::pow(o_.b1, t),
                    .correction2 = std::sqrt(1 - std::pow(o_.b2, t)),
                    .applies = applies};
    std::vector<Work> all;
    bool on_cpu = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
      Work work{.param = items.params[i].contiguous().view({-1}),
                .update = items.updates[i].contiguous().view({-1}),
                .mu = mu[i].view({-1}),
                .nu = nu[i].view({-1}),
                .decays = o_.weight_decay != 0 && (!o_.mask || o_.mask(items.paths[i], items.params[i]))};
      if (work.mu.scalar_type() == at::kByte) take_scales(work, state, items.paths[i], placement);
      on_cpu &= work.param.is_cpu();
      all.push_back(std::move(work));
    }
    step_in_pieces(all, step, on_cpu);
    if (applies) mark_changed(items.params);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (all[i].absmax.defined()) give_scales(all[i], state, items.paths[i], placement);
      if (applies && !items.params[i].is_contiguous()) items.params[i].copy_(all[i].param.view_as(items.params[i]));
      if (!applies && !items.updates[i].is_contiguous())
        items.updates[i].copy_(all[i].update.view_as(items.updates[i]));
    }
  }

  // The scales of this rank's part.
  static void take_scales(Work& work, OptState& state, const std::string& path, const Placement& placement) {
    const auto of = [&](const char* tree) {
      const auto& leaves = state.trees[tree];
      const auto found = leaves.find(path);
      require<ConfigError>(found != leaves.end(), "[", kKind, "] the state is for other parameters: ", tree,
                           " has no entry for \"", path, "\".");
      return found->second.value;
    };
    work.absmax = at::stack({of("mu_absmax"), of("nu_absmax")});
    const auto sharding = sharding_of(placement, path);
    if (!sharding || sharding->is_whole()) return;
    if (const auto begin = run_of_blocks(*sharding)) {
      work.absmax = work.absmax.narrow(1, *begin / kBlockSize, block_count(work.param.numel())).contiguous();
    } else {
      work.blocks = places_in_whole(*sharding, work.param.device()).div_(kBlockSize, "floor");
    }
  }

  // Every rank has the scales of all blocks; one that several ranks have a part of is the largest of theirs.
  void give_scales(Work& work, OptState& state, const std::string& path, const Placement& placement) const {
    at::Tensor absmax = work.absmax;
    const auto sharding = sharding_of(placement, path);
    if (sharding && !sharding->is_whole()) {
      const int64_t blocks = state.trees["mu_absmax"].at(path).value.numel();
      if (!work.blocks.defined()) {
        absmax = at::zeros({2, blocks}, work.absmax.options());
        absmax.narrow(1, *run_of_blocks(*sharding) / kBlockSize, work.absmax.size(1)).copy_(work.absmax);
      }
      AxisNames axes;
      for (const AxisNames& over : share_of(sharding)->axes) axes = with(axes, over);
      if (!axes.empty()) sharding->parallel().group(axes).all_reduce(absmax, ReduceOp::Max);
      if (work.blocks.defined()) {
        const auto pack = [&](const at::Tensor& moment, int64_t which) {
          return quantize_scaled(moment, absmax[which].index_select(0, work.blocks), which == 0);
        };
        state.trees["mu"].at(path).value.copy_(pack(work.mu, 0).view_as(state.trees["mu"].at(path).value));
        state.trees["nu"].at(path).value.copy_(pack(work.nu, 1).view_as(state.trees["nu"].at(path).value));
      }
    }
    state.trees["mu_absmax"].at(path).value.copy_(absmax[0]);
    state.trees["nu_absmax"].at(path).value.copy_(absmax[1]);
  }

  void step_in_pieces(std::vector<Work>& all, const Step& step, bool on_cpu) const {
    struct Piece {
      std::size_t work;
      int64_t begin, size;
    };
    const int64_t limit = int64_t{1} << (on_cpu ? 15 : 24);  // whole blocks
    std::vector<Piece> pieces;
    for (std::size_t w = 0; w < all.size(); ++w) {
      const int64_t numel = all[w].param.numel();
      if (all[w].blocks.defined()) {
        step_out_of_order(all[w], step);
        continue;
      }
      for (int64_t begin = 0; begin < numel; begin += limit)
        pieces.push_back({w, begin, std::min(limit, numel - begin)});
    }
    for_each_on_threads(on_cpu, pieces.size(), [&](std::size_t p) {
      const auto [index, begin, size] = pieces[p];
      const Work& work = all[index];
      const auto part = [&, begin = begin, size = size](const at::Tensor& x) { return x.narrow(0, begin, size); };
      if (!work.absmax.defined())
        return advance(part(work.param), part(work.update), part(work.mu), part(work.nu), work.decays, step, false);
      const at::Tensor absmax = work.absmax.narrow(1, begin / kBlockSize, block_count(size));
      const at::Tensor mu = dequantize_blocks(part(work.mu), absmax[0], true);
      const at::Tensor nu = dequantize_blocks(part(work.nu), absmax[1], false);
      advance(part(work.param), part(work.update), mu, nu, work.decays, step);
      quantize_blocks(mu, true, part(work.mu), absmax[0]);
      quantize_blocks(nu, false, part(work.nu), absmax[1]);
    });
  }

  // Moments stay in float32 until the scales of all ranks are known.
  void step_out_of_order(Work& work, const Step& step) const {
    const auto widen = [&](const at::Tensor& codes, int64_t which) {
      return dequantize_scaled(codes, work.absmax[which].index_select(0, work.blocks), which == 0);
    };
    work.mu = widen(work.mu, 0);
    work.nu = widen(work.nu, 1);
    advance(work.param, work.update, work.mu, work.nu, work.decays, step);
    work.absmax = at::zeros_like(work.absmax);
    work.absmax[0].scatter_reduce_(0, work.blocks, work.mu.abs(), "amax");
    work.absmax[1].scatter_reduce_(0, work.blocks, work.nu, "amax");
  }

  // Moments in float32 or wider, in place.
  void advance(const at::Tensor& param, const at::Tensor& update, const at::Tensor& mu, const at::Tensor& nu,
               bool decays, const Step& step, bool is_packed = true) const {
    const at::Tensor g = update.to(mu.scalar_type());
    mu.mul_(o_.b1).add_(g, 1 - o_.b1);
    nu.mul_(o_.b2).addcmul_(g, g, 1 - o_.b2);
    at::Tensor change = mu.div(nu.sqrt().div_(step.correction2).add_(o_.eps)).mul_(-step.rate / step.correction1);
    // A second moment far below its block's largest is 0 in 8 bits. Without a gradient it stays so, and would divide.
    if (is_packed) change.masked_fill_(nu == 0, 0);
    if (param.scalar_type() == at::kDouble) change = change.to(at::kDouble);
    if (decays) change.add_(param, -step.rate * o_.weight_decay);
    if (step.applies) {
      param.add_(change);
    } else {
      update.copy_(change);
    }
  }

  Adamw8bitOptions o_;
};

}  // namespace

GradientTransformation adamw_8bit(const Adamw8bitOptions& options) { return std::make_shared<Adam8bit>(options); }
GradientTransformation adamw_8bit(const Schedule& learning_rate) {
  return adamw_8bit(Adamw8bitOptions{.learning_rate = learning_rate});
}

}  // namespace easydel::optim
