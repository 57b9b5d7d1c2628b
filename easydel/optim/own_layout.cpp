#include "easydel/optim/own_layout.h"

#include <ATen/ATen.h>

#include <set>
#include <utility>

#include "easydel/optim/share.h"

namespace easydel::optim {
namespace {

template <class State, class F>
void walk(State& state, const F& f) {
  for (auto& [tree, leaves] : state.trees) {
    for (auto& [path, leaf] : leaves) f(path, leaf);
  }
  for (auto& child : state.children) walk(child, f);
}

bool is_whole(const ShardingPtr& sharding) { return !sharding || sharding->is_whole(); }

// The state that the transformation would create for parameters in this layout, without memory.
OptState planned(const Transformation& tx, const TensorMap& params, const Shapes& shapes, const Placement& placement) {
  TensorMap meta;
  for (const auto& [path, shape] : shapes) {
    const ShardingPtr sharding = sharding_of(placement, path);
    meta.set(path, at::empty(sharding ? sharding->stored_shape() : shape,
                             at::TensorOptions(params.at(path).scalar_type()).device(at::kMeta)));
  }
  return tx.init(meta, placement);
}

// The parameters of this step, as full shapes: those with a gradient or with a leaf.
Shapes shapes_of(const TensorMap& params, const TensorMap& gradients, const OptState& state,
                 const Placement& placement) {
  Shapes shapes;
  const auto add = [&](const std::string& path) {
    if (shapes.contains(path)) return;
    if (const at::Tensor* param = params.find(path))
      shapes.emplace(path, whole_shape(*param, sharding_of(placement, path)));
  };
  for (const auto& [path, gradient] : gradients) add(path);
  for_leaves(state, [&](const std::string& path, const OptState::Leaf&) { add(path); });
  return shapes;
}

// Whether each leaf has its parameter's layout there. Leaves of other shapes need not.
bool leaves_lie_as(const Placement& placement, const OptState& state, const TensorMap& params) {
  bool all = true;
  for_leaves(state, [&](const std::string& path, const OptState::Leaf& leaf) {
    all = all && (same_layout(leaf.sharding, sharding_of(placement, path)) || !params.contains(path));
  });
  return all;
}

struct MovedLeaf {
  OptState::Leaf* leaf;
  OptState::Leaf stored;
};

// Moves leaves in another layout to the one that the transformation expects.
std::vector<MovedLeaf> move_leaves(OptState& state, const OptState& plan) {
  std::map<std::string, ShardingPtr> wanted;
  for (const auto& [name, leaf] : plan.leaves()) wanted.emplace(name, leaf->sharding);
  std::vector<MovedLeaf> moved;
  for (const auto& [name, leaf] : state.leaves()) {
    const auto found = wanted.find(name);
    if (found == wanted.end() || same_layout(leaf->sharding, found->second)) continue;
    moved.push_back({leaf, *leaf});
    *leaf = {relayout(leaf->value, leaf->sharding, found->second).contiguous(), found->second};
  }
  return moved;
}

}  // namespace

bool same_layout(const ShardingPtr& a, const ShardingPtr& b) {
  if (a == b || (is_whole(a) && is_whole(b))) return true;
  return a && b && a->is_part_of(*b) && b->is_part_of(*a);
}

at::Tensor relayout(const at::Tensor& part, const ShardingPtr& from, const ShardingPtr& to) {
  const at::NoGradGuard no_grad;
  const at::Tensor given = part.detach();
  if (same_layout(from, to)) return given;
  if (is_whole(from)) return to->part_of(given);
  if (is_whole(to)) return from->gather_whole(given);
  if (to->is_part_of(*from)) return to->cut(given, *from);
  if (from->is_part_of(*to)) return from->join(given, *to);
  return to->part_of(from->gather_whole(given));
}

void for_leaves(OptState& state, const std::function<void(const std::string&, OptState::Leaf&)>& f) { walk(state, f); }
void for_leaves(const OptState& state, const std::function<void(const std::string&, const OptState::Leaf&)>& f) {
  walk(state, f);
}

Placement step_placement(const OptState& state, const Shapes& shapes, const Placement& placement) {
  Placement step = placement;
  std::set<std::string> decided;
  for_leaves(state, [&](const std::string& path, const OptState::Leaf& leaf) {
    const auto shape = shapes.find(path);
    if (shape == shapes.end() || whole_shape(leaf.value, leaf.sharding) != shape->second) return;
    if (decided.insert(path).second && !same_layout(leaf.sharding, sharding_of(placement, path)))
      step.shardings[path] = leaf.sharding;
  });
  return step;
}

OptState init_in(const Transformation& tx, const TensorMap& params, const Placement& placement,
                 const Placement& wanted) {
  TensorMap parts;
  for (const auto& [path, param] : params)
    parts.set(path, relayout(param, sharding_of(placement, path), sharding_of(wanted, path)));
  return tx.init(parts, wanted);
}

void apply_in_own_layout(const Transformation& tx, TensorMap& params, TensorMap& gradients, OptState& state,
                         const Placement& placement) {
  if (!placement.parallel || placement.parallel->is_single() || leaves_lie_as(placement, state, params))
    return tx.apply(params, gradients, state, placement);
  const at::NoGradGuard no_grad;
  const Shapes shapes = shapes_of(params, gradients, state, placement);
  const Placement step = step_placement(state, shapes, placement);
  OptState working = state;  // the same tensors
  std::vector<MovedLeaf> moved;
  if (!leaves_lie_as(step, state, params)) moved = move_leaves(working, planned(tx, params, shapes, step));

  TensorMap parts = params, gradient_parts = gradients;
  std::vector<std::string> paths;
  for (const auto& [path, gradient] : gradients) {
    const ShardingPtr from = sharding_of(placement, path), to = sharding_of(step, path);
    if (!gradient.defined() || same_layout(from, to)) continue;
    parts.set(path, relayout(params.at(path), from, to).contiguous());
    gradient_parts.set(path, relayout(gradient, from, to).contiguous());
    paths.push_back(path);
  }
  tx.apply(parts, gradient_parts, working, step);
  for (const std::string& path : paths)
    params.at(path).copy_(relayout(parts.at(path), sharding_of(step, path), sharding_of(placement, path)));
  for (const MovedLeaf& m : moved) {
    m.stored.value.copy_(relayout(m.leaf->value, m.leaf->sharding, m.stored.sharding));
    *m.leaf = m.stored;
  }
  state = std::move(working);
}

}  // namespace easydel::optim
