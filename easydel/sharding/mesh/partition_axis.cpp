#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {
namespace {

AxisNames train_axis(const PartitionAxis& axis, LogicalAxis logical) {
  const AxisNames sequence = {axis.sequence_parallel_axis};
  const AxisNames tensor = {axis.tensor_parallel_axis};
  switch (logical) {
    case LogicalAxis::Empty: return {};
    case LogicalAxis::Batch:
      return axis.batch_axis.value_or(
          AxisNames{axis.data_parallel_axis, axis.fully_sharded_data_parallel_axis, axis.expert_parallel_axis});
    case LogicalAxis::Length: return axis.sequence_axis.value_or(sequence);
    case LogicalAxis::QueryLength: return axis.query_sequence_axis.value_or(sequence);
    case LogicalAxis::KvLength: return axis.key_sequence_axis.value_or(sequence);
    case LogicalAxis::Embed: return axis.hidden_state_axis.value_or(tensor);
    case LogicalAxis::Head: return axis.head_axis.value_or(tensor);
    case LogicalAxis::KvHead: return axis.kv_head_axis.value_or(tensor);
    case LogicalAxis::MlpIntermediate: return axis.mlp_intermediate_axis.value_or(tensor);
    case LogicalAxis::Vocab: return axis.vocab_axis.value_or(tensor);
    case LogicalAxis::Expert: return axis.expert_axis.value_or(AxisNames{axis.expert_parallel_axis});
    case LogicalAxis::ExpertGate: return axis.expert_gate_axis.value_or(AxisNames{});
    case LogicalAxis::HeadDim: return axis.attention_dim_axis.value_or(AxisNames{});
    case LogicalAxis::KvHeadDim: return axis.attention_kv_dim_axis.value_or(AxisNames{});
    case LogicalAxis::BiasHeadLength: return axis.bias_head_sequence_axis.value_or(AxisNames{});
    case LogicalAxis::BiasKvLength: return axis.bias_key_sequence_axis.value_or(AxisNames{});
  }
  return {};
}

}  // namespace

AxisNames PartitionAxis::resolve_axis(LogicalAxis axis, RuntimeMode mode) const {
  if (mode == RuntimeMode::Train) return train_axis(*this, axis);
  switch (axis) {
    case LogicalAxis::Batch: return decode_batch_axis.value_or(train_axis(*this, axis));
    case LogicalAxis::QueryLength: return decode_query_sequence_axis.value_or(AxisNames{});
    case LogicalAxis::Head: return decode_head_axis.value_or(train_axis(*this, axis));
    case LogicalAxis::KvHead: return decode_kv_head_axis.value_or(train_axis(*this, axis));
    case LogicalAxis::KvLength: return decode_key_sequence_axis.value_or(train_axis(*this, axis));
    case LogicalAxis::HeadDim: return decode_attention_dim_axis.value_or(train_axis(*this, axis));
    case LogicalAxis::KvHeadDim: return decode_attention_kv_dim_axis.value_or(train_axis(*this, axis));
    default: return train_axis(*this, axis);
  }
}

PartitionSpec PartitionAxis::resolve_spec(const std::vector<LogicalAxis>& dims, RuntimeMode mode) const {
  std::vector<SpecDim> resolved;
  for (const LogicalAxis dim : dims) resolved.emplace_back(resolve_axis(dim, mode));
  return PartitionSpec(std::move(resolved));
}

}  // namespace easydel
