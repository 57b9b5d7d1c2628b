// Falcon-H1: attention and a Mamba 2 mixer side by side in each layer, with a multiplier of almost everything.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct FalconH1Config : Config<FalconH1Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "falcon_h1";

  FalconH1Config();

  std::optional<int64_t> mamba_d_ssm = 1024;  // channels; null: mamba_expand * hidden_size
  int64_t mamba_n_heads = 128;
  Json mamba_d_head = "auto";  // or a number: channels of a head
  int64_t mamba_n_groups = 1;
  int64_t mamba_d_state = 256;
  int64_t mamba_d_conv = 4;
  int64_t mamba_expand = 2;
  int64_t mamba_chunk_size = 256;
  bool mamba_conv_bias = true;
  bool mamba_proj_bias = false;  // of the mixer's first projection
  bool projectors_bias = false;  // of its second
  bool mamba_rms_norm = false;
  bool mamba_norm_before_gate = true;
  Json time_step_limit = Json::array({0.0, Json::object({{"__float__", "Infinity"}})});
  std::optional<int64_t> num_logits_to_keep = 1;  // kept for transformers

  double embedding_multiplier = 1.0;
  double lm_head_multiplier = 1.0;
  double key_multiplier = 1.0;
  double attention_in_multiplier = 1.0, attention_out_multiplier = 1.0;
  double ssm_in_multiplier = 1.0, ssm_out_multiplier = 1.0;
  std::optional<std::vector<double>> mlp_multipliers;  // of the gate, and of the MLP's result
  std::optional<std::vector<double>> ssm_multipliers;  // of the gate, x, B, C and time steps

  int64_t mamba_channels() const { return mamba_d_ssm.value_or(mamba_expand * hidden_size); }

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
