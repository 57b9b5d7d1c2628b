#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/elementwise.h"
#include "easydel/optim/rules/newton_schulz.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/share.h"

namespace easydel::optim {
namespace {

class ScaleByMuon : public Elementwise {
 public:
  explicit ScaleByMuon(const MuonOptions& o) : Elementwise("scale_by_muon", true, {{"mu", o.mu_dtype}}), o_(o) {
    check_decay("muon", "beta", o.beta);
    check_not_negative("muon", "eps", o.eps);
    check_newton_schulz({o.ns_coeffs, o.ns_steps, o.preconditioning, o.eps});
  }

  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    Elementwise::update(updates, state, params, placement);  // the momentum
    const at::NoGradGuard no_grad;
    const Items items = collect(kind(), updates, params);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const at::Tensor& momentum = items.updates[i];
      require<ShapeError>(momentum.dim() == 2, "[scale_by_muon] \"", items.paths[i], "\" must be a matrix; got ",
                          momentum.sizes(), ".");
      const auto sharding = sharding_of(placement, items.paths[i]);
      const at::Tensor whole = sharding ? sharding->gather_whole(momentum) : momentum;
      at::Tensor update = orthogonalize(whole, {o_.ns_coeffs, o_.ns_steps, o_.preconditioning, o_.eps});
      if (o_.adaptive) update.mul_((widen({whole})[0] * update).sum());
      momentum.copy_(sharding ? sharding->part_of(update) : update);
    }
  }

 private:
  void run(Batch& batch) const override {
    const Tensors &g = batch.updates, &mu = batch.moments[0];
    const auto t = static_cast<double>(batch.step + 1);
    at::_foreach_mul_(mu, o_.beta);
    at::_foreach_add_(mu, g, 1 - o_.beta);
    if (o_.nesterov) {
      at::_foreach_mul_(g, (1 - o_.beta) / (1 - std::pow(o_.beta, t)));
      at::_foreach_add_(g, mu, o_.beta / (1 - std::pow(o_.beta, t + 1)));
    } else {
      at::_foreach_copy_(g, mu);
      at::_foreach_div_(g, 1 - std::pow(o_.beta, t));
    }
  }

  MuonOptions o_;
};

class ScaleByShape : public Transformation {
 public:
  explicit ScaleByShape(const MuonOptions& o) : axis_(o.reduction_axis), consistent_rms_(o.consistent_rms) {
    require<ConfigError>(axis_ == 0 || axis_ == 1, "[muon] reduction_axis must be 0 or 1; got ", axis_, ".");
    if (consistent_rms_) check_not_negative("muon", "consistent_rms", *consistent_rms_);
  }
  OptState init(const TensorMap&, const Placement&) const override { return {.kind = kKind}; }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    const at::NoGradGuard no_grad;
    check_state(state, kKind);
    const Items items = collect(kKind, updates, params);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::vector<int64_t> shape = whole_shape(items.updates[i], sharding_of(placement, items.paths[i]));
      require<ShapeError>(shape.size() == 2, "[scale_by_shape] \"", items.paths[i], "\" must be a matrix; got ",
                          items.updates[i].sizes(), ".");
      const auto in = static_cast<double>(shape[static_cast<std::size_t>(axis_)]);
      const auto out = static_cast<double>(shape[static_cast<std::size_t>(1 - axis_)]);
      items.updates[i].mul_(consistent_rms_ ? std::sqrt(std::max(in, out)) * *consistent_rms_
                                            : std::sqrt(std::max(1.0, out / in)));
    }
  }

 private:
  static constexpr const char* kKind = "scale_by_shape";
  int64_t axis_;
  std::optional<double> consistent_rms_;
};

}  // namespace

GradientTransformation scale_by_muon(const MuonOptions& options) { return std::make_shared<ScaleByMuon>(options); }
GradientTransformation scale_by_shape(const MuonOptions& options) { return std::make_shared<ScaleByShape>(options); }

GradientTransformation muon(const MuonOptions& o) {
  check_rate("muon", "learning_rate", o.learning_rate);
  check_not_negative("muon", "weight_decay", o.weight_decay);
  auto matrix = chain({scale_by_muon(o), scale_by_shape(o), add_decayed_weights(o.weight_decay, o.weight_decay_mask),
                       scale_by_learning_rate(o.learning_rate)});
  auto other = adamw({.learning_rate = o.adam_learning_rate.value_or(o.learning_rate),
                      .b1 = o.adam_b1,
                      .b2 = o.adam_b2,
                      .eps = o.eps,
                      .eps_root = o.adam_eps_root,
                      .mu_dtype = o.mu_dtype,
                      .weight_decay = o.adam_weight_decay,
                      .nesterov = o.nesterov});
  return multi_transform({{"muon", std::move(matrix)}, {"adam", std::move(other)}},
                         [matrices = o.matrices](std::string_view path, const at::Tensor& param) -> std::string {
                           return param.dim() == 2 && (!matrices || matrices(path, param)) ? "muon" : "adam";
                         });
}

GradientTransformation muon(const Schedule& learning_rate) { return muon(MuonOptions{.learning_rate = learning_rate}); }

}  // namespace easydel::optim
