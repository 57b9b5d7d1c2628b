// The settings that every config has beside its architecture: how the model is split, attends, saves memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/json/json.h"
#include "easydel/sharding/mesh/mesh.h"
#include "easydel/sharding/mesh/partition_axis.h"

namespace easydel {

class FieldVisitor;

struct ShardingSettings {
  std::vector<int64_t> axis_dims = MeshOptions{}.axis_dims;
  std::vector<std::string> axis_names = MeshOptions{}.axis_names;
  std::vector<int64_t> dcn_axis_dims;  // empty: one network
  PartitionAxis partition_axis;
  // ZeRO: 1, the optimizer's state is split over the data axes; 2, gradients too; 3, parameters too, as the rules say.
  // Absent: the rules alone.
  std::optional<int64_t> zero_stage;
  bool shard_attention_computation = true;
  bool use_sharded_kv_caching = false;
  bool fsdp_is_ep_bound = true;         // experts are split over fsdp as well
  bool sp_is_ep_bound = true;           // and over sp
  bool use_expert_tensor_mode = false;  // experts are split over tp instead of ep

  AxisNames expert_axes() const;  // the axes that the experts of a layer are split over
};

struct AttentionSettings {
  std::string mechanism = "auto";
  std::optional<std::string> decode_mechanism;  // what `mechanism` is
  std::optional<DType> dtype;                   // what the model computes in
  DType softmax_dtype = float32;
  std::optional<DType> kv_dtype;  // of the cache; what attention computes in
  int64_t blocksize_q = 512;
  int64_t blocksize_k = 512;
  int64_t blocksize_b = 1;
  double fcm_min_ratio = 0.0;  // forgetful causal mask: the share of the past that training hides at random
  double fcm_max_ratio = 0.0;
  std::optional<int64_t> mask_max_position_embeddings;  // max_position_embeddings
  std::optional<int64_t> freq_max_position_embeddings;  // max_position_embeddings
};

struct MemorySettings {
  std::string gradient_checkpointing;  // a policy's name; empty: nothing is recomputed
  std::vector<std::string> gradient_checkpointing_targets;
  bool use_scan_mlp = false;  // the MLP runs over the sequence in chunks
  int64_t scan_mlp_chunk_size = 1024;
  std::optional<int64_t> lmhead_chunksize;  // tokens for which logits are made at once
};

struct MoeSettings {
  std::string method = "fused_moe";  // or standard_moe, dense_moe
};

struct QuantizationSettings {
  Json weights;   // quantization_config: EasyDeL's or Hugging Face's; null: none
  Json kv_cache;  // kv_cache_quantization_config
};

void list_fields(ShardingSettings& sharding, FieldVisitor& v);
void list_fields(AttentionSettings& attention, FieldVisitor& v);
void list_fields(MemorySettings& memory, FieldVisitor& v);
void list_fields(MoeSettings& moe, FieldVisitor& v);
void list_fields(QuantizationSettings& quantization, FieldVisitor& v);

// Each rule of these settings that needs no registry; ConfigError begins with `where`.
void check_settings(const ShardingSettings& sharding, const std::string& where);
void check_settings(const AttentionSettings& attention, const std::string& where);
void check_settings(const MemorySettings& memory, const std::string& where);
void check_settings(const MoeSettings& moe, const std::string& where);

}  // namespace easydel
