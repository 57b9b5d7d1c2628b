// The mixer: layers/recurrent/mamba.cpp. Letters: B batch, T tokens, D hidden.
#include "easydel/models/falcon_h1/model.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/models/mamba2/config.h"

namespace easydel {
namespace {

// What multiplies the keys multiplies the scores.
AttentionSpec attention_of(const FalconH1Config& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.scale = c.key_multiplier / std::sqrt(static_cast<double>(spec.head_dim));
  return spec;
}

MlpSpec mlp_of(const FalconH1Config& c, int64_t layer_idx) {
  MlpSpec spec = block_spec(c, layer_idx).mlp;
  spec.gate_scale = c.mlp_multipliers->at(0);
  spec.out_scale = c.mlp_multipliers->at(1);
  return spec;
}

Mamba2Spec mixer_of(const FalconH1Config& c, int64_t layer_idx) {
  using Norm = Mamba2Spec::Norm;
  return {.hidden_size = c.hidden_size,
          .num_heads = c.mamba_n_heads,
          .head_dim = c.mamba_d_head.as_int(),
          .state_size = c.mamba_d_state,
          .groups = c.mamba_n_groups,
          .conv_kernel = c.mamba_d_conv,
          .chunk_size = c.mamba_chunk_size,
          .least_time_step = Mamba2Config::time_step_bound(c.time_step_limit, 0),
          .most_time_step = Mamba2Config::time_step_bound(c.time_step_limit, 1),
          .bias = c.mamba_proj_bias,
          .out_bias = c.projectors_bias,
          .conv_bias = c.mamba_conv_bias,
          .norm = !c.mamba_rms_norm          ? Norm::None
                  : c.mamba_norm_before_gate ? Norm::BeforeGate
                                             : Norm::AfterGate,
          .norm_by_group = true,
          .norm_eps = c.norm_eps,
          .in_scale = c.ssm_in_multiplier,
          .part_scales = *c.ssm_multipliers,
          .act = c.hidden_act,
          .layer_idx = layer_idx,
          .init_stddev = c.initializer_range};
}

DecoderSpec falcon_h1_decoder(const FalconH1Config& c) {
  DecoderSpec spec = decoder_spec(c);
  spec.norm_name = "final_layernorm";
  spec.embedding_multiplier = c.embedding_multiplier;
  return spec;
}

}  // namespace

FalconH1DecoderLayer::FalconH1DecoderLayer(const FalconH1Config& c, int64_t layer_idx)
    : attention_in_(c.attention_in_multiplier),
      attention_out_(c.attention_out_multiplier),
      mixer_out_(c.ssm_out_multiplier),
      feed_forward_(add<MLP>("feed_forward", mlp_of(c, layer_idx))),
      mamba_(add<Mamba2Mixer>("mamba", mixer_of(c, layer_idx))),
      self_attn_(add<Attention>("self_attn", attention_of(c, layer_idx))),
      input_layernorm_(add<RMSNorm>("input_layernorm", c.hidden_size, c.norm_eps)),
      pre_ff_layernorm_(add<RMSNorm>("pre_ff_layernorm", c.hidden_size, c.norm_eps)) {}

LayerOutput FalconH1DecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const at::Tensor read_BTD = input_layernorm_(x_BTD);
  const at::Tensor mixed_BTD = mamba_(read_BTD, ctx) * mixer_out_;
  const Attention::Output attended = self_attn_(read_BTD * attention_in_, ctx);
  const at::Tensor h_BTD = x_BTD + (mixed_BTD + attended.hidden * attention_out_);
  return {.hidden = h_BTD + feed_forward_(pre_ff_layernorm_(h_BTD)), .attention_weights = attended.weights};
}

FalconH1Model::FalconH1Model(const FalconH1Config& c) : DecoderModel(c, falcon_h1_decoder(c)) {}

LogitOptions FalconH1ForCausalLM::logit_options() const {
  return {.scale = static_cast<const FalconH1Config&>(config()).lm_head_multiplier};
}

}  // namespace easydel
