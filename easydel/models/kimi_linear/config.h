// Kimi Linear: Kimi Delta Attention in most layers and latent attention without positions in the others, then experts.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct KimiLinearConfig : Config<KimiLinearConfig, LatentMoeConfig> {
  static constexpr std::string_view kModelType = "kimi_linear";
  static constexpr std::string_view kLinear = "linear_attention", kDense = "dense", kSparse = "sparse";

  KimiLinearConfig();

  std::optional<std::vector<std::string>> mixer_types;      // layer_types: linear_attention or full_attention
  std::optional<std::vector<std::string>> mlp_layer_types;  // dense or sparse
  int64_t linear_head_dim = 128;
  int64_t linear_num_heads = 32;
  int64_t linear_conv_kernel_dim = 4;

  bool is_linear(int64_t layer) const { return mixer_types->at(static_cast<std::size_t>(layer)) == kLinear; }
  bool is_sparse(int64_t layer) const { return mlp_layer_types->at(static_cast<std::size_t>(layer)) == kSparse; }

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
