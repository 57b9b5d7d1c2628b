// Qwen3-Next: Gated DeltaNet in most layers and attention in some, each with experts behind it.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

// The keys of models that have linear attention in some layers and full attention in the others.
struct LinearAttentionKeys {
  static constexpr std::string_view kLinear = "linear_attention";

  int64_t conv_kernel_dim = 4;
  int64_t key_head_dim = 128;
  int64_t value_head_dim = 128;
  int64_t num_key_heads = 16;
  int64_t num_value_heads = 32;
  std::optional<std::vector<std::string>> layer_types;  // linear_attention or full_attention for each layer

  bool is_linear(int64_t layer) const { return layer_types->at(static_cast<std::size_t>(layer)) == kLinear; }
  void fields(FieldVisitor& v);
  void post_init(int64_t layers);  // every fourth layer has full attention, where nothing is given
  void validate(const BaseConfig& config) const;
  PartitionRules rules(const PartitionRules& common, const ShardingSettings& sharding, bool fully_sharded) const;
  // full_attention_interval in the place of layer_types, and a quarter of each head that is rotated.
  static void rename_older_keys(Json& given, bool is_whole, int64_t layers);
};

struct Qwen3NextConfig : Config<Qwen3NextConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "qwen3_next";

  Qwen3NextConfig();

  LinearAttentionKeys linear;
  int64_t moe_intermediate_size = 512;
  int64_t shared_expert_intermediate_size = 512;
  bool norm_topk_prob = true;
  int64_t decoder_sparse_step = 1;
  std::optional<std::vector<int64_t>> mlp_only_layers;

  bool has_experts(int64_t layer) const;  // else a plain MLP of intermediate_size

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
