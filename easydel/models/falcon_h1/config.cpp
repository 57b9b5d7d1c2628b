#include "easydel/models/falcon_h1/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"
#include "easydel/models/mamba2/config.h"

namespace easydel {

FalconH1Config::FalconH1Config() {
  vocab_size = 128000;
  hidden_size = 4096;
  intermediate_size = 14336;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 8192;
  norm_eps = 1e-5;
  pad_token_id = 0;
  bos_token_id = 1;
  eos_token_id = 2;
}

void FalconH1Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  v("mamba_d_ssm", mamba_d_ssm, "Channels of the mixer; null: mamba_expand * hidden_size.");
  v("mamba_n_heads", mamba_n_heads, "Heads of the mixer, each with one decay.");
  v("mamba_d_head", mamba_d_head, "Channels of a head; auto: what the heads share evenly.");
  v("mamba_n_groups", mamba_n_groups, "Groups of heads that share B and C.");
  v("mamba_d_state", mamba_d_state, "Size of a channel's state.");
  v("mamba_d_conv", mamba_d_conv, "Kernel size of the convolution.");
  v("mamba_expand", mamba_expand, "Channels as a multiple of hidden_size, without mamba_d_ssm.");
  v("mamba_chunk_size", mamba_chunk_size, "Tokens that are computed together.");
  v("mamba_conv_bias", mamba_conv_bias, "A bias of the convolution.");
  v("mamba_proj_bias", mamba_proj_bias, "A bias of the mixer's first projection.");
  v("projectors_bias", projectors_bias, "A bias of the mixer's last projection.");
  v("mamba_rms_norm", mamba_rms_norm, "A norm in front of the mixer's last projection.");
  v("mamba_norm_before_gate", mamba_norm_before_gate, "That norm precedes the gate.");
  v("time_step_limit", time_step_limit, "Minimum and maximum time step.");
  v("num_logits_to_keep", num_logits_to_keep, "Kept for transformers' generation.");
  v("embedding_multiplier", embedding_multiplier, "Factor of the embeddings.");
  v("lm_head_multiplier", lm_head_multiplier, "Factor of the logits.");
  v("key_multiplier", key_multiplier, "Factor of the keys.");
  v("attention_in_multiplier", attention_in_multiplier, "Factor of attention's input.");
  v("attention_out_multiplier", attention_out_multiplier, "Factor of attention's output.");
  v("ssm_in_multiplier", ssm_in_multiplier, "Factor of the mixer's input.");
  v("ssm_out_multiplier", ssm_out_multiplier, "Factor of the mixer's output.");
  v("mlp_multipliers", mlp_multipliers, "Factors of the MLP's gate and of its result.");
  v("ssm_multipliers", ssm_multipliers, "Factors of the mixer's gate, x, B, C and time steps.");
  v.only_when_changed();
  head_dim_field(v);
}

void FalconH1Config::post_init() {
  DecoderConfig::post_init();
  if (mamba_d_head == Json("auto") && mamba_n_heads > 0) mamba_d_head = mamba_channels() / mamba_n_heads;
  if (!mlp_multipliers) mlp_multipliers.emplace(2, 1.0);
  if (!ssm_multipliers) ssm_multipliers.emplace(5, 1.0);
}

void FalconH1Config::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("mamba_d_ssm", mamba_d_ssm, 1);
  check.at_least("mamba_n_heads", mamba_n_heads, 1);
  check.at_least("mamba_n_groups", mamba_n_groups, 1);
  check.at_least("mamba_d_state", mamba_d_state, 1);
  check.at_least("mamba_d_conv", mamba_d_conv, 1);
  check.at_least("mamba_expand", mamba_expand, 1);
  check.at_least("mamba_chunk_size", mamba_chunk_size, 1);
  check.multiple("mamba_n_heads", mamba_n_heads, "mamba_n_groups", mamba_n_groups);
  require<ConfigError>(mamba_d_head.is_int() && mamba_d_head.as_int() * mamba_n_heads == mamba_channels(),
                       "[FalconH1Config] mamba_d_head * mamba_n_heads must be mamba_d_ssm (", mamba_channels(),
                       "); got ", mamba_d_head.dump(), " and ", mamba_n_heads, ".");
  Mamba2Config::check_time_step_limit(*this, time_step_limit);
  require<ConfigError>(mlp_multipliers->size() == 2, "[FalconH1Config] mlp_multipliers must be two numbers; got ",
                       mlp_multipliers->size(), ".");
  require<ConfigError>(ssm_multipliers->size() == 5, "[FalconH1Config] ssm_multipliers must be five numbers; got ",
                       ssm_multipliers->size(), ".");
}

PartitionRules FalconH1Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;
  return rules_behind({{"mamba\\.(in|out)_proj\\.weight$", specs.shard_second()},
                       {"feed_forward\\.(gate|up)_proj\\.weight$", specs.split_first(kInner)},
                       {"feed_forward\\.(gate|up)_proj\\.bias$", specs.bias(kInner)},
                       {"feed_forward\\.down_proj\\.weight$", specs.split_second(kInner)}},
                      fully_sharded);
}

}  // namespace easydel
