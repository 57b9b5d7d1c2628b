// Where the parameters of a model lie on a mesh. All ranks call these functions together.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "easydel/layers/tensor_map.h"
#include "easydel/sharding/mesh/named_sharding.h"
#include "easydel/sharding/mesh/partition_rules.h"

namespace easydel {

class BaseModule;
struct GraphDef;
class World;

using Specs = std::map<std::string, PartitionSpec>;
using NamedShardings = std::map<std::string, NamedSharding>;
using ShardFns = std::map<std::string, std::function<at::Tensor(const at::Tensor&)>>;

// Storage follows the rule exactly; sizes that do not divide are stored unevenly. A parameter that no rule matches is a
// ConfigError with its name. Without rules the config's, without a mesh the config's over all ranks.
void shard_model(BaseModule& model, const std::optional<PartitionRules>& partition_rules = {},
                 const std::optional<Mesh>& mesh = {});
// The same on given ranks, which may be planned ones: parameters that have no memory yet need none.
void place_parameters(BaseModule& model, const std::optional<PartitionRules>& partition_rules,
                      std::shared_ptr<World> world, const std::optional<Mesh>& mesh = {});
void place_like(BaseModule& model, const GraphDef& graphdef);
// Every rank stores every parameter whole; the work stays split over the mesh.
void fully_gather(BaseModule& model, const std::optional<Mesh>& mesh = {});
// Every parameter over all devices of the mesh, along its largest dimension.
void fully_shard(BaseModule& model, const std::optional<Mesh>& mesh = {});

Specs specs_sharding(const BaseModule& model, const std::optional<PartitionRules>& partition_rules = {});
NamedShardings named_shardings(const BaseModule& model, const std::optional<PartitionRules>& partition_rules = {},
                               const std::optional<Mesh>& mesh = {});
NamedShardings params_sharding(const BaseModule& model);  // as the parameters lie now

// From a whole tensor to this rank's part, or back with is_gather; by path.
ShardFns sharding_fns(const BaseModule& model, const std::optional<PartitionRules>& partition_rules,
                      const std::optional<Mesh>& mesh, bool is_gather);
// These functions applied to the tensors of these paths.
TensorMap apply_sharding_fns(const BaseModule& model, const TensorMap& tree,
                             const std::optional<PartitionRules>& partition_rules = {},
                             const std::optional<Mesh>& mesh = {}, bool is_gather = false);

}  // namespace easydel
