#include "easydel/infra/parallel/weight_specs.h"

#include "easydel/sharding/parallel.h"

// An axis may be named once in a spec: what another dimension has taken is left out.
namespace easydel {

WeightSpecs::WeightSpecs(const ShardingSettings& sharding, bool fully_sharded) : axis_(sharding.partition_axis) {
  const AxisNames shard = {axis_.fully_sharded_data_parallel_axis, axis_.sequence_parallel_axis};
  experts_ = sharding.expert_axes();
  if (fully_sharded)
    shard_ = shard;
  else
    experts_ = without(experts_, shard);
}

PartitionSpec WeightSpecs::split_first(LogicalAxis axis) const {
  const AxisNames first = axis_.resolve_axis(axis);
  return {first, without(shard_, first)};
}

PartitionSpec WeightSpecs::split_second(LogicalAxis axis) const {
  const AxisNames second = axis_.resolve_axis(axis);
  return {without(shard_, second), second};
}

PartitionSpec WeightSpecs::shard_second() const { return {nullptr, shard_}; }

PartitionSpec WeightSpecs::bias(LogicalAxis axis) const { return {SpecDim(axis_.resolve_axis(axis))}; }

PartitionSpec WeightSpecs::experts_split_first(LogicalAxis axis) const {
  const AxisNames first = without(axis_.resolve_axis(axis), experts_);
  return {experts_, first, without(shard_, with(experts_, first))};
}

PartitionSpec WeightSpecs::experts_split_second(LogicalAxis axis) const {
  const AxisNames second = without(axis_.resolve_axis(axis), experts_);
  return {experts_, without(shard_, with(experts_, second)), second};
}

}  // namespace easydel
