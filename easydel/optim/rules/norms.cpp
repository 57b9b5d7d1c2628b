#include <ATen/ATen.h>

#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/share.h"

namespace easydel::optim {
namespace {

Items tensors_of(const TensorMap& tree) {
  Items items;
  for (const auto& [path, tensor] : tree) {
    if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) continue;
    items.paths.push_back(path);
    items.updates.push_back(tensor);
  }
  return items;
}

at::Tensor norm_of(const Items& items, const Placement& placement) {
  const at::Tensor sum = sums_of_squares(items.paths, items.updates, placement).sum();
  all_reduce(sum, placement);
  return sum.sqrt();
}

// [n] float64: the mean of the squares of each full tensor.
at::Tensor block_mean_squares(const std::vector<std::string>& paths, const Tensors& tensors,
                              const Placement& placement) {
  const at::Tensor sums = sums_of_squares(paths, tensors, placement);
  all_reduce(sums, placement);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const int64_t count = c10::multiply_integers(whole_shape(tensors[i], sharding_of(placement, paths[i])));
    sums[static_cast<int64_t>(i)].div_(static_cast<double>(count));
  }
  return sums;
}

// Each tensor times its element of `factors`.
void multiply(const Tensors& tensors, const at::Tensor& factors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].mul_(factors[static_cast<int64_t>(i)]);
}

class ClipByGlobalNorm : public Transformation {
 public:
  explicit ClipByGlobalNorm(double max_norm) : max_norm_(max_norm) {
    check_not_negative("clip_by_global_norm", "max_norm", max_norm);
  }
  OptState init(const TensorMap& params, const Placement&) const override {
    const auto device = params.empty() ? at::Device(at::kCPU) : params.begin()->second.device();
    OptState state{.kind = kKind};
    state.trees["norm"]["global"] = {at::zeros({}, at::TensorOptions(device).dtype(at::kDouble)), nullptr};
    return state;
  }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    const at::NoGradGuard no_grad;
    check_state(state, kKind);
    const Items items = collect(kKind, updates, params);
    const at::Tensor norm = norm_of(items, placement);
    state.trees["norm"]["global"].value.copy_(norm);
    const at::Tensor factor = at::where(norm < max_norm_, at::ones_like(norm), max_norm_ / norm);
    // One call for each dtype and device, with the factor on that device.
    std::map<std::pair<std::string, at::ScalarType>, Tensors> groups;
    for (const at::Tensor& t : items.updates) groups[{t.device().str(), t.scalar_type()}].push_back(t);
    for (const auto& [key, tensors] : groups) {
      const bool fast = !tensors[0].is_cpu();  // there the foreach kernel needs a factor of their dtype
      const at::Tensor there = factor.to(tensors[0].device());
      at::_foreach_mul_(tensors, fast ? there.to(key.second) : there);
    }
  }

  static constexpr const char* kKind = "clip_by_global_norm";

 private:
  double max_norm_;
};

class BlockRms : public Transformation {
 public:
  BlockRms(bool of_params, double value) : of_params_(of_params), value_(value) {
    check_positive(kind(), of_params ? "min_scale" : "threshold", value);
  }
  OptState init(const TensorMap&, const Placement&) const override { return {.kind = kind()}; }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    const at::NoGradGuard no_grad;
    check_state(state, kind());
    const Items items = collect(kind(), updates, params);
    if (items.size() == 0) return;
    const at::Tensor rms =
        block_mean_squares(items.paths, of_params_ ? items.params : items.updates, placement).sqrt_();
    multiply(items.updates, of_params_ ? rms.clamp_min(value_) : (rms / value_).clamp_min(1).reciprocal());
  }

 private:
  const char* kind() const { return of_params_ ? "scale_by_param_block_rms" : "clip_by_block_rms"; }
  bool of_params_;
  double value_;
};

}  // namespace

at::Tensor global_norm(const TensorMap& tree, const Placement& placement) {
  const at::NoGradGuard no_grad;
  return norm_of(tensors_of(tree), placement);
}

at::Tensor last_global_norm(const OptState& state) {
  if (state.kind == ClipByGlobalNorm::kKind) return state.trees.at("norm").at("global").value;
  for (const OptState& child : state.children) {
    if (at::Tensor norm = last_global_norm(child); norm.defined()) return norm;
  }
  return {};
}

void clip_to_norm(const std::vector<const TensorMap*>& trees, double norm, double max_norm) {
  if (norm <= max_norm) return;
  const at::NoGradGuard no_grad;
  Tensors all;
  for (const TensorMap* tree : trees) {
    for (const auto& [path, tensor] : *tree) all.push_back(tensor);
  }
  at::_foreach_mul_(all, max_norm / norm);
}

GradientTransformation clip_by_global_norm(double max_norm) { return std::make_shared<ClipByGlobalNorm>(max_norm); }
GradientTransformation clip_by_block_rms(double threshold) { return std::make_shared<BlockRms>(false, threshold); }
GradientTransformation scale_by_param_block_rms(double min_scale) {
  return std::make_shared<BlockRms>(true, min_scale);
}

}  // namespace easydel::optim
