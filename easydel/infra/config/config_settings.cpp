#include "easydel/infra/config/config_settings.h"

#include <set>

#include "easydel/core/error.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

void check_at_least_one(const std::string& where, const char* key, std::optional<int64_t> value) {
  require<ConfigError>(value.value_or(1) >= 1, where, key, " must be at least 1; got ", value.value_or(1), ".");
}

}  // namespace

AxisNames ShardingSettings::expert_axes() const {
  if (use_expert_tensor_mode) return {partition_axis.tensor_parallel_axis};
  AxisNames axes = partition_axis.resolve_axis(LogicalAxis::Expert);
  if (fsdp_is_ep_bound) axes.push_back(partition_axis.fully_sharded_data_parallel_axis);
  if (sp_is_ep_bound) axes.push_back(partition_axis.sequence_parallel_axis);
  return axes;
}

void list_fields(ShardingSettings& s, FieldVisitor& v) {
  v("sharding_axis_dims", s.axis_dims, "Devices along each axis; one may be -1: all remaining devices.");
  v("sharding_axis_names", s.axis_names, "Names of the axes.");
  v("sharding_dcn_axis_dims", s.dcn_axis_dims, "Size of each axis over the slower, outer network (DCN).");
  v("partition_axis", s.partition_axis, "Mesh axes that split the batch, the sequence, heads, features and experts.");
  v("zero_stage", s.zero_stage,
    "ZeRO stage: 1 shards the optimizer state over the data axes, 2 also gradients, 3 also parameters; null: by the "
    "partition rules.");
  v("shard_attention_computation", s.shard_attention_computation, "Split attention over heads and sequence.");
  v("use_sharded_kv_caching", s.use_sharded_kv_caching, "Split the cache over the sequence as well.");
  v("fsdp_is_ep_bound", s.fsdp_is_ep_bound, "Split experts over fsdp together with ep.");
  v("sp_is_ep_bound", s.sp_is_ep_bound, "Split experts over sp together with ep.");
  v("use_expert_tensor_mode", s.use_expert_tensor_mode, "Split experts over tp instead of ep.");
}

void list_fields(AttentionSettings& a, FieldVisitor& v) {
  v("attn_mechanism", a.mechanism, "Attention implementation: auto, vanilla, sdpa, flash, cudnn, blockwise, ring, …");
  v("decode_attn_mechanism", a.decode_mechanism, "Attention implementation for decoding; null: attn_mechanism.");
  v("attn_dtype", a.dtype, "Compute dtype of attention; null: the model's dtype.");
  v("attn_softmax_dtype", a.softmax_dtype, "Compute dtype of the softmax.");
  v("kvdtype", a.kv_dtype,
    "Dtype of the KV cache: a floating-point dtype, or int8 with scales; null: the model's dtype.");
  v("blocksize_q", a.blocksize_q, "Queries per block of blockwise attention.");
  v("blocksize_k", a.blocksize_k, "Keys per block of blockwise attention.");
  v("blocksize_b", a.blocksize_b, "Sequences per block of blockwise attention.");
  v("fcm_min_ratio", a.fcm_min_ratio,
    "Forgetful causal masking: minimum fraction of earlier tokens to mask in training.");
  v("fcm_max_ratio", a.fcm_max_ratio, "Maximum of that fraction; 0: no forgetful causal masking.");
  v("mask_max_position_embeddings", a.mask_max_position_embeddings, "Length of get_basic_causal_mask.");
  v("freq_max_position_embeddings", a.freq_max_position_embeddings, "Length of get_basic_frequencies.");
}

void list_fields(MemorySettings& m, FieldVisitor& v) {
  v("gradient_checkpointing", m.gradient_checkpointing,
    "Gradient checkpointing policy: which activations to keep for backward; empty: all.");
  v("gradient_checkpointing_targets", m.gradient_checkpointing_targets,
    "Names for policies that select activations by name.");
  v("use_scan_mlp", m.use_scan_mlp, "Run the MLP over the sequence in chunks.");
  v("scan_mlp_chunk_size", m.scan_mlp_chunk_size, "Tokens per chunk.");
  v("lmhead_chunksize", m.lmhead_chunksize, "Tokens whose logits are computed at once; null: automatic.");
}

void list_fields(MoeSettings& m, FieldVisitor& v) {
  v("moe_method", m.method, "MoE implementation: fused_moe, standard_moe or dense_moe.");
}

void list_fields(QuantizationSettings& q, FieldVisitor& v) {
  v("quantization_config", q.weights, "How the weights are quantized; null: not quantized.");
  v("kv_cache_quantization_config", q.kv_cache,
    "How the KV cache is quantized: {\"dtype\": \"int8\"}; null: not quantized.");
}

void check_settings(const ShardingSettings& s, const std::string& where) {
  require<ConfigError>(!s.zero_stage || (*s.zero_stage >= 1 && *s.zero_stage <= 3), where,
                       "zero_stage must be 1, 2 or 3, or null for the partition rules alone; got ",
                       s.zero_stage.value_or(0), ".");
  normalize({.axis_dims = s.axis_dims, .axis_names = s.axis_names, .dcn_axis_dims = s.dcn_axis_dims});
}

void check_settings(const AttentionSettings& a, const std::string& where) {
  check_at_least_one(where, "blocksize_q", a.blocksize_q);
  check_at_least_one(where, "blocksize_k", a.blocksize_k);
  check_at_least_one(where, "blocksize_b", a.blocksize_b);
  check_at_least_one(where, "mask_max_position_embeddings", a.mask_max_position_embeddings);
  check_at_least_one(where, "freq_max_position_embeddings", a.freq_max_position_embeddings);
  require<ConfigError>(0 <= a.fcm_min_ratio && a.fcm_min_ratio <= a.fcm_max_ratio && a.fcm_max_ratio <= 1, where,
                       "0 <= fcm_min_ratio <= fcm_max_ratio <= 1 must hold; got ", a.fcm_min_ratio, " and ",
                       a.fcm_max_ratio, ".");
}

void check_settings(const MemorySettings& m, const std::string& where) {
  check_at_least_one(where, "scan_mlp_chunk_size", m.scan_mlp_chunk_size);
  check_at_least_one(where, "lmhead_chunksize", m.lmhead_chunksize);
}

void check_settings(const MoeSettings& m, const std::string& where) {
  static const std::set<std::string> known = {"dense_moe", "fused_moe", "standard_moe"};
  require<ConfigError>(known.contains(m.method), where,
                       "moe_method must be one of dense_moe, fused_moe, standard_moe; got \"", m.method, "\".");
}

}  // namespace easydel
