#include "easydel/infra/weight_specs.h"

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

PartitionRules latent_moe_rules(const WeightSpecs& specs) {
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.(q|q_b|kv_b)_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.(q_a_proj|kv_a_proj_with_mqa)\\.weight$", specs.shard_second()},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      // Experts are stacked: [expert, out, in].
      {"mlp\\.experts\\.gate_up_proj$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.experts\\.down_proj$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
      {"mlp\\.gate\\.weight$", specs.shard_second()},
      {"(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"(gate|up)_proj\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, biases
  };
}

}  // namespace easydel
