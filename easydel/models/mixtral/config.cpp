#include "easydel/models/mixtral/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

MixtralConfig::MixtralConfig() {
  vocab_size = 32000;
  hidden_size = 4096;
  intermediate_size = 14336;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 4096 * 32;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  rope.rope_theta = 1e6;
}

void MixtralConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
  expert_fields(v);
  v("router_jitter_noise", router_jitter_noise, "Noise on the router's input in training.");
}

void MixtralConfig::validate() const {
  MoeConfig::validate();
  ConfigCheck(*this).between_zero_and_one("router_jitter_noise", router_jitter_noise);
}

}  // namespace easydel
