#include "easydel/models/olmo2/config.h"

namespace easydel {

Olmo2Config::Olmo2Config() {
  vocab_size = 50304;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  pad_token_id = 1;
  eos_token_id = 50279;
}

void Olmo2Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v.only_when_changed();
  head_dim_field(v);
}

}  // namespace easydel
