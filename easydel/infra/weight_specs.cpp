#include "easydel/infra/weight_specs.h"

#include <algorithm>
#include <initializer_list>

namespace easydel {
namespace {

// An axis may be named once in a spec: what another dimension has taken is left out.
AxisNames without(AxisNames axes, std::initializer_list<AxisNames> taken) {
  for (const AxisNames& names : taken) {
    std::erase_if(axes, [&](const std::string& a) { return std::find(names.begin(), names.end(), a) != names.end(); });
  }
  return axes;
}

}  // namespace

WeightSpecs::WeightSpecs(const ShardingSettings& sharding, bool fully_sharded) : axis_(sharding.partition_axis) {
  const AxisNames shard = {axis_.fully_sharded_data_parallel_axis, axis_.sequence_parallel_axis};
  experts_ = sharding.expert_axes();
  if (fully_sharded)
    shard_ = shard;
  else
    experts_ = without(experts_, {shard});
}

PartitionSpec WeightSpecs::split_first(LogicalAxis axis) const {
  const AxisNames first = axis_.resolve_axis(axis);
  return {first, without(shard_, {first})};
}

PartitionSpec WeightSpecs::split_second(LogicalAxis axis) const {
  const AxisNames second = axis_.resolve_axis(axis);
  return {without(shard_, {second}), second};
}

PartitionSpec WeightSpecs::shard_second() const { return {nullptr, shard_}; }

PartitionSpec WeightSpecs::bias(LogicalAxis axis) const { return {SpecDim(axis_.resolve_axis(axis))}; }

PartitionSpec WeightSpecs::experts_split_first(LogicalAxis axis) const {
  const AxisNames first = without(axis_.resolve_axis(axis), {experts_});
  return {experts_, first, without(shard_, {experts_, first})};
}

PartitionSpec WeightSpecs::experts_split_second(LogicalAxis axis) const {
  const AxisNames second = without(axis_.resolve_axis(axis), {experts_});
  return {experts_, without(shard_, {experts_, second}), second};
}

}  // namespace easydel
