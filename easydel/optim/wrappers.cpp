#include "easydel/optim/wrappers.h"

#include <ATen/ATen.h>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/optim/share.h"

namespace easydel::optim {
namespace {

class Accumulate : public Transformation {
 public:
  Accumulate(GradientTransformation inner, const MultiStepsOptions& o) : inner_(std::move(inner)), o_(o) {
    require<ConfigError>(inner_ != nullptr, "[MultiSteps] got a null transformation.");
    require<ConfigError>(o.every_k >= 1, "[MultiSteps] every_k must be at least 1; got ", o.every_k, ".");
  }

  OptState init(const TensorMap& params, const Placement& placement) const override {
    OptState state{.kind = kKind, .counts = {{"mini_step", 0}, {"gradient_step", 0}}};
    auto& sums = state.trees["acc_grads"];
    for (const auto& [path, param] : params) {
      if (!at::isFloatingType(param.scalar_type())) continue;
      const at::ScalarType dtype = o_.accumulator_dtype.value_or(acc_type(param.scalar_type()));
      sums[path] = {at::zeros_like(param, param.options().dtype(dtype).requires_grad(false)),
                    sharding_of(placement, path)};
    }
    state.children.push_back(inner_->init(params, placement));
    return state;
  }

  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    if (add(updates, state, params)) {
      inner_->update(updates, state.children[0], params, placement);
    } else {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& update : collect(kKind, updates, params).updates) update.zero_();
    }
  }

  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    if (add(gradients, state, params)) inner_->apply(params, gradients, state.children[0], placement);
  }

 private:
  // True when a step is due, with the accumulated gradients in place of the gradients.
  bool add(const TensorMap& gradients, OptState& state, const TensorMap& params) const {
    const at::NoGradGuard no_grad;
    check_state(state, kKind, 1);
    const Items items = collect(kKind, gradients, params);
    const Tensors sums = leaves_of(kKind, state, "acc_grads", items);
    int64_t& mini_step = state.counts["mini_step"];
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (o_.use_grad_mean) {
        sums[i].lerp_(items.updates[i].to(sums[i].scalar_type()), 1.0 / static_cast<double>(mini_step + 1));
      } else {
        sums[i].add_(items.updates[i]);
      }
    }
    const bool emit = mini_step >= o_.every_k - 1;
    mini_step = emit ? 0 : mini_step + 1;
    if (!emit) return false;
    ++state.counts["gradient_step"];
    for (std::size_t i = 0; i < items.size(); ++i) {
      items.updates[i].copy_(sums[i]);
      sums[i].zero_();
    }
    return true;
  }

  static constexpr const char* kKind = "MultiSteps";
  GradientTransformation inner_;
  MultiStepsOptions o_;
};

class Injected : public Transformation {
 public:
  Injected(std::function<GradientTransformation(const Hyperparams&)> make, std::map<std::string, Schedule> schedules)
      : make_(std::move(make)), schedules_(std::move(schedules)) {
    require<ConfigError>(make_ != nullptr, "[inject_hyperparams] got an empty function.");
    made(values_at(0, {}));
  }

  OptState init(const TensorMap& params, const Placement& placement) const override {
    OptState state{.kind = kKind, .counts = {{"count", 0}}, .scalars = values_at(0, {})};
    state.children.push_back(made(state.scalars)->init(params, placement));
    return state;
  }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    advance(state)->update(updates, state.children[0], params, placement);
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    advance(state)->apply(params, gradients, state.children[0], placement);
  }

 private:
  GradientTransformation made(const Hyperparams& values) const {
    auto inner = make_(values);
    require<ConfigError>(inner != nullptr, "[inject_hyperparams] the function returned a null transformation.");
    return inner;
  }
  Hyperparams values_at(int64_t step, const Hyperparams& set) const {
    Hyperparams values;
    for (const auto& [name, schedule] : schedules_) {
      const auto found = set.find(name);
      values[name] = schedule.constant() && found != set.end() ? found->second : schedule(step);
    }
    return values;
  }
  GradientTransformation advance(OptState& state) const {
    check_state(state, kKind, 1);
    for (const auto& [name, value] : state.scalars) {
      require<ConfigError>(schedules_.contains(name), "[inject_hyperparams] unknown hyperparameter \"", name,
                           "\" in the state.");
    }
    state.scalars = values_at(state.counts["count"], state.scalars);
    auto inner = made(state.scalars);
    ++state.counts["count"];
    return inner;
  }

  static constexpr const char* kKind = "inject_hyperparams";
  std::function<GradientTransformation(const Hyperparams&)> make_;
  std::map<std::string, Schedule> schedules_;
};

class IfFinite : public Transformation {
 public:
  IfFinite(GradientTransformation inner, int64_t max_consecutive_errors)
      : inner_(std::move(inner)), max_(max_consecutive_errors) {
    require<ConfigError>(inner_ != nullptr, "[apply_if_finite] got a null transformation.");
    require<ConfigError>(max_ >= 0, "[apply_if_finite] max_consecutive_errors must not be negative; got ", max_, ".");
  }
  OptState init(const TensorMap& params, const Placement& placement) const override {
    OptState state{.kind = kKind, .counts = {{"notfinite_count", 0}, {"total_notfinite", 0}, {"last_finite", 1}}};
    state.children.push_back(inner_->init(params, placement));
    return state;
  }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    if (passes(updates, state, params, placement)) {
      inner_->update(updates, state.children[0], params, placement);
    } else {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& update : collect(kKind, updates, params).updates) update.zero_();
    }
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    if (passes(gradients, state, params, placement)) {
      inner_->apply(params, gradients, state.children[0], placement);
    }
  }

 private:
  bool passes(const TensorMap& gradients, OptState& state, const TensorMap& params, const Placement& placement) const {
    const at::NoGradGuard no_grad;
    check_state(state, kKind, 1);
    const bool finite = all_finite(collect(kKind, gradients, params).updates, placement);
    auto& count = state.counts["notfinite_count"];
    count = finite ? 0 : count + 1;
    state.counts["last_finite"] = finite;
    if (!finite) ++state.counts["total_notfinite"];
    return finite || count > max_;
  }

  static bool all_finite(const Tensors& tensors, const Placement& placement) {
    Tensors bad;
    for (const at::Tensor& t : tensors) {
      if (t.numel() == 0) continue;
      bad.push_back(t.isfinite().all().logical_not().to(at::kFloat).to(tensors[0].device()));
    }
    const at::Tensor sum =
        bad.empty() ? at::zeros({}, tensors.empty() ? at::TensorOptions() : tensors[0].options()).to(at::kFloat)
                    : at::stack(bad).sum();
    all_reduce(sum, placement);
    return sum.item<float>() == 0;
  }

  static constexpr const char* kKind = "apply_if_finite";
  GradientTransformation inner_;
  int64_t max_;
};

}  // namespace

GradientTransformation MultiSteps(GradientTransformation inner, const MultiStepsOptions& options) {
  return std::make_shared<Accumulate>(std::move(inner), options);
}
GradientTransformation MultiSteps(GradientTransformation inner, int64_t every_k) {
  return MultiSteps(std::move(inner), MultiStepsOptions{.every_k = every_k});
}

bool has_updated(const OptState& state) {
  check_state(state, "MultiSteps", 1);
  return state.counts.at("mini_step") == 0 && state.counts.at("gradient_step") > 0;
}

GradientTransformation inject_hyperparams(std::function<GradientTransformation(const Hyperparams&)> make,
                                          std::map<std::string, Schedule> hyperparams) {
  return std::make_shared<Injected>(std::move(make), std::move(hyperparams));
}

GradientTransformation apply_if_finite(GradientTransformation inner, int64_t max_consecutive_errors) {
  return std::make_shared<IfFinite>(std::move(inner), max_consecutive_errors);
}

}  // namespace easydel::optim
