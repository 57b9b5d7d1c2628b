#include "easydel/infra/state/state_layout.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/registry.h"
#include "easydel/optim/share.h"
#include "easydel/sharding/zero.h"

namespace easydel {
namespace {

// The paths of the leaves, in the order of leaves().
std::vector<std::string> paths_of(const optim::OptState& state) {
  std::vector<std::string> paths;
  optim::for_leaves(state, [&](const std::string& path, const optim::OptState::Leaf&) { paths.push_back(path); });
  return paths;
}

// The first rule that is found in "0/1/mu/model.norm.weight", in "mu/model.norm.weight" or in the path.
std::optional<std::size_t> first_match(const PartitionRules& rules, const std::string& name, const std::string& path) {
  const std::string before = name.substr(0, name.size() - path.size() - 1);
  const std::string tree = before.substr(before.rfind('/') + 1);
  std::optional<std::size_t> first;
  for (const std::string& candidate : {name, tree + "/" + path, path}) {
    const auto found = rules.find(candidate);
    if (found && (!first || *found < *first)) first = found;
  }
  return first;
}

}  // namespace

std::vector<ParameterInfo> trained_parameters(const GraphDef& graphdef) {
  if (graphdef.transforms.empty()) return *graphdef.parameters;
  const std::shared_ptr<BaseModule> module = Registry::instance().make_module(*graphdef.config, graphdef.task);
  for (const auto& transform : graphdef.transforms) module->transform(transform);
  std::unordered_map<std::string, bool> trains;
  for (const auto& [path, parameter] : module->named_parameters()) trains.emplace(path, parameter->trainable);
  std::vector<ParameterInfo> infos;
  for (const ParameterInfo& info : *graphdef.parameters) {
    if (trains.at(info.path)) infos.push_back(info);
  }
  return infos;
}

GraphState trained_params(const GraphDef& graphdef, const GraphState& params) {
  if (graphdef.transforms.empty()) return params;
  GraphState trained;
  for (const ParameterInfo& info : trained_parameters(graphdef)) trained.set(info.path, params.at(info.path));
  return trained;
}

void move_leaf(optim::OptState::Leaf& leaf, const optim::ShardingPtr& sharding) {
  if (leaf.sharding == sharding) return;
  const at::Tensor moved = optim::relayout(leaf.value, leaf.sharding, sharding);
  // Not a view: the memory of what it was cut from goes.
  const bool alike = optim::same_layout(leaf.sharding, sharding);
  leaf.value = !alike && moved.is_alias_of(leaf.value) ? moved.clone(at::MemoryFormat::Contiguous) : moved.contiguous();
  leaf.sharding = sharding;
}

StateLayout::StateLayout(const GraphDef& graphdef, const std::optional<PartitionRules>& rules)
    : parameters_(trained_parameters(graphdef)), params_{.parallel = graphdef.parallel} {
  for (const ParameterInfo& info : *graphdef.parameters) {
    if (info.sharding) params_.shardings.emplace(info.path, info.sharding);
  }
  wanted_ = params_;
  if (!graphdef.parallel) return;  // one device: nothing is split
  rules_ = rules;
  const std::optional<int64_t> stage = graphdef.config->sharding.zero_stage;
  for (const ParameterInfo& info : parameters_) {
    shapes_.emplace(info.path, info.shape.shape);
    if (stage == 1 || stage == 2) wanted_.shardings[info.path] = split_over_data(info.sharding);
  }
}

optim::ShardingPtr StateLayout::by_rules(const std::string& name, const std::string& path) const {
  const auto rule = first_match(*rules_, name, path);
  require<ConfigError>(rule.has_value(),
                       "[PartitionRules] every leaf of an optimizer state must match a rule; got none ", "of ",
                       rules_->size(), " for \"", name, "\". A last rule \".*\" with P() keeps the rest whole.");
  const optim::ShardingPtr own = optim::sharding_of(params_, path);
  const PartitionSpec& spec = rules_->rules()[*rule].spec;
  if (!own || own->spec() == spec) return own;
  try {
    return std::make_shared<const WeightSharding>(own->dims(), spec, own->shared_parallel());
  } catch (const ConfigError& error) {
    fail<ConfigError>(error.what(), " The leaf is \"", name, "\".");
  }
}

optim::OptState StateLayout::planned(const optim::Transformation& tx, const optim::Placement& placement) const {
  TensorMap meta;
  for (const ParameterInfo& info : parameters_) {
    const optim::ShardingPtr sharding = optim::sharding_of(placement, info.path);
    meta.set(info.path, at::empty(sharding ? sharding->stored_shape() : info.shape.shape,
                                  at::TensorOptions(info.shape.dtype).device(at::kMeta)));
  }
  return tx.init(meta, placement);
}

optim::OptState StateLayout::plan(const optim::Transformation& tx) const {
  optim::OptState plan = planned(tx, wanted_);
  if (!rules_) return plan;
  const std::vector<std::string> paths = paths_of(plan);
  std::vector<optim::ShardingPtr> shardings;  // of the leaves
  optim::Placement by_path{.parallel = params_.parallel};
  const auto names = plan.leaves();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool of_parameter = shapes_.contains(paths[i]);
    shardings.push_back(of_parameter ? by_rules(names[i].name, paths[i]) : nullptr);
    if (of_parameter) by_path.shardings.emplace(paths[i], shardings.back());  // the first one decides
  }
  for (const auto& [path, sharding] : params_.shardings) by_path.shardings.emplace(path, sharding);
  plan = planned(tx, by_path);
  auto leaves = plan.leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    optim::OptState::Leaf& leaf = *leaves[i].leaf;
    const auto shape = shapes_.find(paths[i]);
    if (shape == shapes_.end() || optim::whole_shape(leaf.value, leaf.sharding) != shape->second) continue;
    leaf.value = at::empty(shardings[i] ? shardings[i]->stored_shape() : shape->second, leaf.value.options());
    leaf.sharding = shardings[i];
  }
  return plan;
}

optim::OptState StateLayout::init(const optim::Transformation& tx, const GraphState& params) const {
  GraphState trained;
  for (const ParameterInfo& info : parameters_) trained.set(info.path, params.at(info.path));
  const optim::OptState layout = plan(tx);
  optim::OptState state = optim::init_in(tx, trained, params_, optim::step_placement(layout, shapes_, params_));
  const auto wanted = layout.leaves();
  auto have = state.leaves();
  for (std::size_t i = 0; i < have.size(); ++i) move_leaf(*have[i].leaf, wanted[i].leaf->sharding);
  return state;
}

void StateLayout::lay_out(optim::OptState& state, const optim::GradientTransformation& tx) const {
  auto have = state.leaves();
  if (!tx) {
    const std::vector<std::string> paths = paths_of(state);
    for (std::size_t i = 0; i < have.size(); ++i) {
      const auto& [name, leaf] = have[i];
      const std::string& path = paths[i];
      const auto shape = shapes_.find(path);
      const bool same = shape != shapes_.end() && optim::whole_shape(leaf->value, leaf->sharding) == shape->second;
      move_leaf(*leaf, !same ? nullptr : rules_ ? by_rules(name, path) : optim::sharding_of(wanted_, path));
    }
    return;
  }
  const optim::OptState layout = plan(*tx);
  const auto wanted = layout.leaves();
  for (std::size_t i = 0; i < std::max(wanted.size(), have.size()); ++i) {
    const std::string& a = i < wanted.size() ? wanted[i].name : have[i].name;
    require<ConfigError>(i < wanted.size() && i < have.size() && wanted[i].name == have[i].name,
                         "[shard_optimizer_state] the optimizer state is not that of this tx: \"", a,
                         "\" is not in both.");
  }
  for (std::size_t i = 0; i < have.size(); ++i) move_leaf(*have[i].leaf, wanted[i].leaf->sharding);
}

void StateLayout::lay_out(optim::OptState& state, const std::map<std::string, NamedSharding>& shardings) const {
  const std::vector<std::string> paths = paths_of(state);
  auto have = state.leaves();
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < have.size(); ++i) places.emplace(have[i].name, i);
  for (const auto& [name, wanted] : shardings) {
    const auto place = places.find(name);
    require<ConfigError>(place != places.end(), "[shard_with_shape] the optimizer state has no leaf \"", name, "\".");
    if (!params_.parallel) continue;
    const Mesh& mesh = params_.parallel->mesh().mesh();
    require<ConfigError>(wanted.mesh == mesh, "[shard_with_shape] the parameters lie on the mesh ", mesh.to_string(),
                         "; got ", wanted.mesh.to_string(), " for \"", name, "\".");
    optim::OptState::Leaf& leaf = *have[place->second].leaf;
    const optim::ShardingPtr parameter = optim::sharding_of(params_, paths[place->second]);
    const std::vector<int64_t> shape = optim::whole_shape(leaf.value, leaf.sharding);
    const bool same = parameter && parameter->shape() == shape;
    const auto sharding = std::make_shared<const WeightSharding>(
        same ? parameter->dims() : std::vector<Dim>(shape.begin(), shape.end()), wanted.spec, params_.parallel);
    if (!optim::same_layout(leaf.sharding, sharding)) move_leaf(leaf, sharding);
  }
}

}  // namespace easydel
