// MiniMax-Text-01: lightning attention in some layers and attention in the others, each with experts behind it.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct MiniMaxConfig : Config<MiniMaxConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "minimax";
  static constexpr std::string_view kLinear = "linear_attention";

  MiniMaxConfig();

  std::optional<std::vector<std::string>> mixer_types;  // layer_types: linear_attention or full_attention
  int64_t block_size = 256;
  double router_jitter_noise = 0.0;
  // Of the residual stream (alpha) and of what is added to it (beta).
  double full_attn_alpha_factor = 1, full_attn_beta_factor = 1;
  double linear_attn_alpha_factor = 1, linear_attn_beta_factor = 1;
  double mlp_alpha_factor = 1, mlp_beta_factor = 1;

  bool is_linear(int64_t layer) const { return mixer_types->at(static_cast<std::size_t>(layer)) == kLinear; }

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
