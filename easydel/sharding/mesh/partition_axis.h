// Maps the logical dimensions of tensors (batch, sequence, heads, features, experts) to mesh axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/sharding/mesh/partition_spec.h"

namespace easydel {

// The meaning of a tensor dimension, independent of mesh axes.
enum class LogicalAxis : uint8_t {
  Empty,  // not sharded
  Batch,
  Length,
  QueryLength,
  KvLength,
  Embed,
  Head,
  KvHead,
  MlpIntermediate,
  Vocab,
  Expert,
  ExpertGate,
  HeadDim,
  KvHeadDim,
  BiasHeadLength,
  BiasKvLength,
};

enum class RuntimeMode : uint8_t { Train, Decode };  // decoding may map some dimensions differently

// An unset field defaults to what its comment says; an empty list means "not split".
struct PartitionAxis {
  std::string data_parallel_axis = "dp";
  std::string fully_sharded_data_parallel_axis = "fsdp";
  std::string tensor_parallel_axis = "tp";
  std::string sequence_parallel_axis = "sp";
  std::string expert_parallel_axis = "ep";

  std::optional<AxisNames> batch_axis;             // (dp, fsdp, ep)
  std::optional<AxisNames> sequence_axis;          // sp
  std::optional<AxisNames> query_sequence_axis;    // sp
  std::optional<AxisNames> head_axis;              // tp
  std::optional<AxisNames> kv_head_axis;           // tp
  std::optional<AxisNames> key_sequence_axis;      // sp
  std::optional<AxisNames> hidden_state_axis;      // tp
  std::optional<AxisNames> mlp_intermediate_axis;  // tp
  std::optional<AxisNames> vocab_axis;             // tp
  std::optional<AxisNames> expert_axis;            // ep
  std::optional<AxisNames> expert_gate_axis;       // none, and none for the four below
  std::optional<AxisNames> attention_dim_axis;
  std::optional<AxisNames> attention_kv_dim_axis;
  std::optional<AxisNames> bias_head_sequence_axis;
  std::optional<AxisNames> bias_key_sequence_axis;

  std::optional<AxisNames> decode_batch_axis;           // batch_axis; the corresponding axis for those below
  std::optional<AxisNames> decode_query_sequence_axis;  // none: one token at a time
  std::optional<AxisNames> decode_head_axis;
  std::optional<AxisNames> decode_kv_head_axis;
  std::optional<AxisNames> decode_key_sequence_axis;
  std::optional<AxisNames> decode_attention_dim_axis;
  std::optional<AxisNames> decode_attention_kv_dim_axis;

  AxisNames resolve_axis(LogicalAxis axis, RuntimeMode mode = RuntimeMode::Train) const;
  PartitionSpec resolve_spec(const std::vector<LogicalAxis>& dims, RuntimeMode mode = RuntimeMode::Train) const;

  friend bool operator==(const PartitionAxis&, const PartitionAxis&) = default;
};

}  // namespace easydel
