// The form of an optimizer state, and the way from one layout on a mesh to another.
#pragma once

#include <optional>
#include <vector>

#include "easydel/infra/state/graph.h"
#include "easydel/optim/own_layout.h"
#include "easydel/optim/state.h"
#include "easydel/optim/transformation.h"
#include "easydel/sharding/mesh/named_sharding.h"
#include "easydel/sharding/mesh/partition_rules.h"

namespace easydel {

// The parameters that train: without those that a transform of the model has frozen, for which no optimizer keeps
// anything.
std::vector<ParameterInfo> trained_parameters(const GraphDef& graphdef);
GraphState trained_params(const GraphDef& graphdef, const GraphState& params);

// Where the leaves of an optimizer state lie.
class StateLayout {
 public:
  // With rules a leaf of a parameter's shape lies by the first rule that is found in its name
  // ("0/mu/model.norm.weight", "mu/model.norm.weight") or in the parameter's path; without, as its parameter does, and
  // with zero_stage 1 or 2 split over the data axes as well. Other leaves, an adafactor's rows and columns, lie as the
  // transformation keeps them for parameters that lie so.
  StateLayout(const GraphDef& graphdef, const std::optional<PartitionRules>& rules = {});

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  // What the transformation would make, without memory, each leaf with its sharding. ConfigError names a leaf that no
  // rule matches.
  optim::OptState plan(const optim::Transformation& tx) const;
  // What the transformation makes, in this layout.
  optim::OptState init(const optim::Transformation& tx, const GraphState& params) const;
  // Moves the leaves of a state there. Without a transformation a leaf that has no parameter's shape is whole
  // everywhere. ConfigError when the state is not the transformation's. All ranks call this together.
  void lay_out(optim::OptState& state, const optim::GradientTransformation& tx) const;
  // Moves the leaves of these names there. ConfigError names one that there is not, and one for another mesh than that
  // of the parameters.
  void lay_out(optim::OptState& state, const std::map<std::string, NamedSharding>& shardings) const;

 private:
  optim::OptState planned(const optim::Transformation& tx, const optim::Placement& placement) const;
  optim::ShardingPtr by_rules(const std::string& name, const std::string& path) const;

  std::vector<ParameterInfo> parameters_;
  optim::Shapes shapes_;
  optim::Placement params_, wanted_;  // where the parameters lie; where the state does without rules
  std::optional<PartitionRules> rules_;
};

// Moves a leaf. All ranks call this together.
void move_leaf(optim::OptState::Leaf& leaf, const optim::ShardingPtr& sharding);

}  // namespace easydel
