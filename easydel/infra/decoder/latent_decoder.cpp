#include "easydel/infra/decoder/latent_decoder.h"

namespace easydel {

LatentAttentionSpec latent_attention_spec(const LatentMoeConfig& c, int64_t layer_idx) {
  return {.hidden_size = c.hidden_size,
          .num_heads = c.num_attention_heads,
          .q_lora_rank = c.q_lora_rank,
          .kv_lora_rank = c.kv_lora_rank,
          .nope_head_dim = c.qk_nope_head_dim,
          .rope_head_dim = c.qk_rope_head_dim,
          .v_head_dim = c.v_head_dim,
          .layer_idx = layer_idx,
          .bias = c.attention_bias,
          .scale = latent_attention_scale(c.qk_nope_head_dim + c.qk_rope_head_dim, c.rope),
          .dropout = c.attention_dropout,
          .init_stddev = c.initializer_range};
}

}  // namespace easydel
