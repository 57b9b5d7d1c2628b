#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/optim/transformation.h"
#include "easydel/optim/tree.h"
#include "easydel/sharding/mesh/partition_rules.h"

namespace easydel::optim {
namespace {

class Chain : public Transformation {
 public:
  explicit Chain(std::vector<GradientTransformation> transformations) : parts_(std::move(transformations)) {
    require<ConfigError>(!parts_.empty(), "[chain] there must be at least one transformation; got none.");
    for (const auto& part : parts_) require<ConfigError>(part != nullptr, "[chain] got a null transformation.");
  }
  OptState init(const TensorMap& params, const Placement& placement) const override {
    OptState state{.kind = "chain"};
    for (const auto& part : parts_) state.children.push_back(part->init(params, placement));
    return state;
  }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    check_state(state, "chain", parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i]->update(updates, state.children[i], params, placement);
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    check_state(state, "chain", parts_.size());
    const std::size_t last = parts_.size() - 1;
    for (std::size_t i = 0; i < last; ++i) parts_[i]->update(gradients, state.children[i], params, placement);
    parts_[last]->apply(params, gradients, state.children[last], placement);
  }

 private:
  std::vector<GradientTransformation> parts_;
};

class Identity : public Transformation {
 public:
  explicit Identity(bool zero) : zero_(zero) {}
  OptState init(const TensorMap&, const Placement&) const override { return {.kind = kind()}; }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement&) const override {
    check_state(state, kind());
    if (!zero_) return;
    const at::NoGradGuard no_grad;
    for (const at::Tensor& update : collect(kind(), updates, params).updates) update.zero_();
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    if (zero_) return check_state(state, kind());
    Transformation::apply(params, gradients, state, placement);
  }

 private:
  const char* kind() const { return zero_ ? "set_to_zero" : "identity"; }
  bool zero_;
};

void write_back(TensorMap& to, const TensorMap& from) {
  for (const auto& [path, tensor] : from) to.set(path, tensor);
}

// Assigns each parameter to one of several transformations, or to none.
class Partition : public Transformation {
 public:
  using Choose = std::function<std::size_t(std::string_view path, const at::Tensor& param)>;  // size(): none

  Partition(const char* kind, std::vector<GradientTransformation> parts, Choose choose)
      : kind_(kind), parts_(std::move(parts)), choose_(std::move(choose)) {
    for (const auto& part : parts_) require<ConfigError>(part != nullptr, "[", kind_, "] got a null transformation.");
  }
  OptState init(const TensorMap& params, const Placement& placement) const override {
    OptState state{.kind = kind_};
    const auto split = divide(params, params);
    for (std::size_t i = 0; i < parts_.size(); ++i) state.children.push_back(parts_[i]->init(split[i], placement));
    return state;
  }
  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    check_state(state, kind_, parts_.size());
    auto split = divide(updates, params);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->update(split[i], state.children[i], params, placement);
      write_back(updates, split[i]);
    }
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    check_state(state, kind_, parts_.size());
    auto split = divide(gradients, params);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->apply(params, split[i], state.children[i], placement);
    }
    apply_updates(params, split.back());
  }

 private:
  // The last one is for parameters without a transformation.
  std::vector<TensorMap> divide(const TensorMap& tree, const TensorMap& params) const {
    std::vector<TensorMap> split(parts_.size() + 1);
    for (const auto& [path, tensor] : tree) {
      const at::Tensor* param = params.find(path);
      split[choose_(path, param ? *param : tensor)].set(path, tensor);
    }
    return split;
  }

  const char* kind_;
  std::vector<GradientTransformation> parts_;
  Choose choose_;
};

}  // namespace

void Transformation::apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const {
  update(gradients, state, params, placement);
  apply_updates(params, gradients);
}

void apply_updates(TensorMap& params, const TensorMap& updates) {
  const at::NoGradGuard no_grad;
  const Items items = collect("apply_updates", updates, params);
  if (items.size() > 0) at::_foreach_add_(items.params, items.updates);
}

Mask matching(const std::string& pattern) {
  const PartitionRules rules({{pattern, {}}});
  return [rules](std::string_view path, const at::Tensor&) { return rules.find(path).has_value(); };
}

Mask not_matching(const std::string& pattern) {
  return [mask = matching(pattern)](std::string_view path, const at::Tensor& param) { return !mask(path, param); };
}

GradientTransformation chain(std::vector<GradientTransformation> transformations) {
  return std::make_shared<Chain>(std::move(transformations));
}

GradientTransformation identity() { return std::make_shared<Identity>(false); }
GradientTransformation set_to_zero() { return std::make_shared<Identity>(true); }

GradientTransformation masked(GradientTransformation inner, Mask mask) {
  require<ConfigError>(mask != nullptr, "[masked] got an empty mask.");
  return std::make_shared<Partition>("masked", std::vector{std::move(inner)},
                                     [mask = std::move(mask)](std::string_view path, const at::Tensor& param) {
                                       return mask(path, param) ? std::size_t{0} : std::size_t{1};
                                     });
}

GradientTransformation masked(GradientTransformation inner, const std::string& pattern) {
  return masked(std::move(inner), matching(pattern));
}

GradientTransformation multi_transform(std::vector<std::pair<std::string, GradientTransformation>> by_pattern) {
  std::vector<PartitionRule> rules;
  std::vector<GradientTransformation> parts;
  for (auto& [pattern, part] : by_pattern) {
    rules.push_back({pattern, {}});
    parts.push_back(std::move(part));
  }
  return std::make_shared<Partition>(
      "multi_transform", std::move(parts),
      [rules = PartitionRules(std::move(rules))](std::string_view path, const at::Tensor&) {
        const auto found = rules.find(path);
        require<ConfigError>(found.has_value(), "[multi_transform] none of ", rules.size(),
                             " patterns matches the parameter \"", path, "\". End with {\".*\", ...} for all others.");
        return *found;
      });
}

GradientTransformation multi_transform(std::map<std::string, GradientTransformation> by_label, Labels labels) {
  require<ConfigError>(labels != nullptr, "[multi_transform] got an empty function for the labels.");
  std::map<std::string, std::size_t> places;
  std::vector<GradientTransformation> parts;
  std::string known;
  for (auto& [label, part] : by_label) {
    known += (known.empty() ? "" : ", ") + label;
    places[label] = parts.size();
    parts.push_back(std::move(part));
  }
  return std::make_shared<Partition>("multi_transform", std::move(parts),
                                     [=, labels = std::move(labels)](std::string_view path, const at::Tensor& param) {
                                       const std::string label = labels(path, param);
                                       const auto found = places.find(label);
                                       require<ConfigError>(found != places.end(), "[multi_transform] the parameter \"",
                                                            path, "\" has the label \"", label, "\"; known: ", known,
                                                            ".");
                                       return found->second;
                                     });
}

}  // namespace easydel::optim
