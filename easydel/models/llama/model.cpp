// Letters: B batch, T tokens, D hidden.
#include "easydel/models/llama/model.h"

namespace easydel {

// Child names are the checkpoint's names, so this constructor is also the weight map.
LlamaDecoderLayer::LlamaDecoderLayer(const LlamaConfig& c, int64_t layer_idx)
    : self_attn_(add<Attention>("self_attn", AttentionSpec{.hidden_size = c.hidden_size,
                                                           .num_heads = c.num_attention_heads,
                                                           .num_kv_heads = c.key_value_heads(),
                                                           .head_dim = c.head_size(),
                                                           .layer_idx = layer_idx,
                                                           .qkv_bias = c.attention_bias,
                                                           .out_bias = c.attention_bias,
                                                           .dropout = c.attention_dropout,
                                                           .init_stddev = c.initializer_range})),
      mlp_(add<MLP>("mlp", MlpSpec{.hidden_size = c.hidden_size,
                                   .intermediate_size = c.intermediate_size,
                                   .act = c.hidden_act,
                                   .bias = c.mlp_bias,
                                   .init_stddev = c.initializer_range})),
      input_layernorm_(add<RMSNorm>("input_layernorm", c.hidden_size, c.rms_norm_eps)),
      post_attention_layernorm_(add<RMSNorm>("post_attention_layernorm", c.hidden_size, c.rms_norm_eps)) {}

LayerOutput LlamaDecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const Attention::Output attended = self_attn_(input_layernorm_(x_BTD), ctx);
  const at::Tensor h_BTD = x_BTD + attended.hidden;
  return {.hidden = h_BTD + mlp_(post_attention_layernorm_(h_BTD)), .attention_weights = attended.weights};
}

}  // namespace easydel
