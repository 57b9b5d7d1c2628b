// Which mesh axes carry which dimension of a tensor: the batch, the sequence, heads, features, experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/sharding/mesh/partition_spec.h"

namespace easydel {

// What a dimension of a tensor means, whatever mesh axes carry it.
enum class LogicalAxis : uint8_t {
  Empty,  // carried by none
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

enum class RuntimeMode : uint8_t { Train, Decode };  // decoding may carry some dimensions otherwise

// A field without a value takes what its comment says; an empty list means "not split".
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

  std::optional<AxisNames> decode_batch_axis;           // what batch_axis is; the same for those below
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
