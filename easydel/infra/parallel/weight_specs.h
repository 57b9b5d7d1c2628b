// The specs that a family's partition rules are made of: one dimension of a weight is computed in parallel (over tp, or
// over the axes that the experts are split over), the other is sharded over fsdp and sp and gathered before use.
#pragma once

#include "easydel/infra/config/config_settings.h"
#include "easydel/sharding/mesh/partition_rules.h"
#include "easydel/sharding/mesh/partition_spec.h"

namespace easydel {

// A Linear's weight is [out, in], as Hugging Face stores it: split_first makes it column-parallel, split_second
// row-parallel. A Conv1D's is [in, out], and it is the other way round.
class WeightSpecs {
 public:
  // Without fully_sharded no dimension is sharded, and experts are split over ep alone.
  explicit WeightSpecs(const ShardingSettings& sharding, bool fully_sharded = true);

  PartitionSpec split_first(LogicalAxis axis) const;   // P('tp', ('fsdp','sp'))
  PartitionSpec split_second(LogicalAxis axis) const;  // P(('fsdp','sp'), 'tp')
  PartitionSpec shard_second() const;                  // P(None, ('fsdp','sp')): routers, classifiers, positions
  PartitionSpec bias(LogicalAxis axis) const;          // P('tp'): of a column-parallel layer

  // The same for experts, stacked along a first dimension.
  PartitionSpec experts_split_first(LogicalAxis axis) const;   // P(('ep','fsdp','sp'), 'tp', None)
  PartitionSpec experts_split_second(LogicalAxis axis) const;  // P(('ep','fsdp','sp'), None, 'tp')

 private:
  PartitionAxis axis_;
  AxisNames shard_;
  AxisNames experts_;
};

}  // namespace easydel
