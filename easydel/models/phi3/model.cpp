// Letters: B batch, T tokens, D hidden.
#include "easydel/models/phi3/model.h"

namespace easydel {

Phi3DecoderLayer::Phi3DecoderLayer(const Phi3Config& c, int64_t layer_idx)
    : layer_idx_(layer_idx),
      resid_pdrop_(c.resid_pdrop),
      self_attn_(add<Attention>("self_attn", AttentionSpec{.hidden_size = c.hidden_size,
                                                           .num_heads = c.num_attention_heads,
                                                           .num_kv_heads = c.key_value_heads(),
                                                           .head_dim = c.head_size(),
                                                           .layer_idx = layer_idx,
                                                           .fused_qkv = true,
                                                           .sliding_window = c.sliding_window.value_or(0),
                                                           .dropout = c.attention_dropout,
                                                           .init_stddev = c.initializer_range})),
      mlp_(add<MLP>("mlp", MlpSpec{.hidden_size = c.hidden_size,
                                   .intermediate_size = c.intermediate_size,
                                   .act = c.hidden_act,
                                   .fused_gate_up = true,
                                   .init_stddev = c.initializer_range})),
      input_layernorm_(add<RMSNorm>("input_layernorm", c.hidden_size, c.rms_norm_eps)),
      post_attention_layernorm_(add<RMSNorm>("post_attention_layernorm", c.hidden_size, c.rms_norm_eps)) {}

LayerOutput Phi3DecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Attention::Output attended = self_attn_(input_layernorm_(x_BTD), ctx);
  const at::Tensor h_BTD = x_BTD + ctx.dropout(attended.hidden, resid_pdrop_, "resid_attn", layer_idx_);
  const at::Tensor inner_BTD = mlp_(post_attention_layernorm_(h_BTD));
  return {.hidden = h_BTD + ctx.dropout(inner_BTD, resid_pdrop_, "resid_mlp", layer_idx_),
          .attention_weights = attended.weights};
}

}  // namespace easydel
