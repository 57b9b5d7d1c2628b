#include "easydel/models/phimoe/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

void list_fields(MscaleRope& rope, FieldVisitor& v) {
  list_fields(static_cast<RopeParameters&>(rope), v);
  v("short_mscale", rope.short_mscale, "Factor of cos and sin up to the original length.");
  v("long_mscale", rope.long_mscale, "The same past it.");
}

PhimoeConfig::PhimoeConfig() {
  vocab_size = 32064;
  hidden_size = 4096;
  intermediate_size = 6400;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 4096 * 32;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  num_local_experts = 16;
  mscale_rope.rope_theta = 1e6;
}

void PhimoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  v("rope_parameters", mscale_rope, "Rotary position embeddings.");
  bias_field(v);
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
  expert_fields(v);
  v("router_jitter_noise", router_jitter_noise, "How near experts must come to the best one to share its weight.");
  v("input_jitter_noise", input_jitter_noise, "Kept for transformers: training here routes without noise.");
  v("lm_head_bias", lm_head_bias, "A bias on the logits.");
  v.only_when_changed();
  head_dim_field(v);
}

void PhimoeConfig::post_init() {
  fill_original_length(mscale_rope, max_position_embeddings);
  rope = mscale_rope;
  if (rope.rope_type != "default" && mscale_rope.short_mscale) rope.attention_factor = mscale_rope.short_mscale;
  MoeConfig::post_init();
}

void PhimoeConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.between_zero_and_one("router_jitter_noise", router_jitter_noise);
  check.between_zero_and_one("input_jitter_noise", input_jitter_noise);
  require<ConfigError>(num_experts_per_tok == 2 && num_local_experts >= 2,
                       "[PhimoeConfig] num_experts_per_tok must be 2, of 2 or more num_local_experts; got ",
                       num_experts_per_tok, " and ", num_local_experts, ".");
  if (rope.rope_type == "default") return;
  require<ConfigError>(mscale_rope.short_mscale && mscale_rope.short_mscale == mscale_rope.long_mscale,
                       "[PhimoeConfig] rope_parameters.short_mscale and long_mscale must be given and equal; got ",
                       mscale_rope.short_mscale.value_or(0), " and ", mscale_rope.long_mscale.value_or(0), ".");
}

}  // namespace easydel
