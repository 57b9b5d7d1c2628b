#include "easydel/infra/state_layout.h"

#include <ATen/ATen.h>

#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/registry.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel {
namespace {

using Infos = std::unordered_map<std::string, const ParameterInfo*>;

// Leaves of a parameter's shape lie as it does.
void place_by_shape(optim::OptState& state, const Infos& infos, const optim::Placement& placement,
                    const std::function<void(optim::OptState::Leaf&, std::shared_ptr<const WeightSharding>)>& move) {
  for (auto& [tree, leaves] : state.trees) {
    for (auto& [path, leaf] : leaves) {
      const auto info = infos.find(path);
      const auto sharding = placement.shardings.find(path);
      const auto old_shape = leaf.sharding ? at::IntArrayRef() : leaf.value.sizes();
      const bool same = info != infos.end() && sharding != placement.shardings.end() &&
                        (leaf.sharding || old_shape == at::IntArrayRef(info->second->shape.shape));
      move(leaf, same ? sharding->second : nullptr);
    }
  }
  for (optim::OptState& child : state.children) place_by_shape(child, infos, placement, move);
}

void move_leaf(optim::OptState::Leaf& leaf, std::shared_ptr<const WeightSharding> sharding) {
  if (leaf.sharding == sharding) return;
  const at::Tensor whole = leaf.sharding ? leaf.sharding->gather_whole(leaf.value) : leaf.value;
  leaf.value = sharding ? sharding->part_of(whole).clone(at::MemoryFormat::Contiguous) : whole;
  leaf.sharding = std::move(sharding);
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

optim::OptState planned_state(const optim::Transformation& tx, const std::vector<ParameterInfo>& parameters,
                              const optim::Placement& placement) {
  TensorMap meta;
  for (const ParameterInfo& info : parameters) {
    const auto sharding = placement.shardings.find(info.path);
    const auto& shape = sharding == placement.shardings.end() || !sharding->second ? info.shape.shape
                                                                                   : sharding->second->stored_shape();
    meta.set(info.path, at::empty(shape, at::TensorOptions(info.shape.dtype).device(at::kMeta)));
  }
  return tx.init(meta, placement);
}

void lay_out(optim::OptState& state, const optim::GradientTransformation& tx,
             const std::vector<ParameterInfo>& parameters, const optim::Placement& placement) {
  if (!tx) {
    Infos infos;
    for (const ParameterInfo& info : parameters) infos.emplace(info.path, &info);
    return place_by_shape(state, infos, placement, move_leaf);
  }
  const optim::OptState plan = planned_state(*tx, parameters, placement);
  const auto wanted = plan.leaves();
  auto have = state.leaves();
  for (std::size_t i = 0; i < std::max(wanted.size(), have.size()); ++i) {
    const std::string& a = i < wanted.size() ? wanted[i].name : have[i].name;
    require<ConfigError>(i < wanted.size() && i < have.size() && wanted[i].name == have[i].name,
                         "[shard_optimizer_state] the optimizer state is not that of this tx: \"", a,
                         "\" is not in both.");
  }
  for (std::size_t i = 0; i < have.size(); ++i) move_leaf(*have[i].leaf, wanted[i].leaf->sharding);
}

}  // namespace easydel
