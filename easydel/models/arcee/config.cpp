#include "easydel/models/arcee/config.h"

namespace easydel {

ArceeConfig::ArceeConfig() {
  vocab_size = 32000;
  hidden_size = 2560;
  intermediate_size = 18432;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "relu2";
  max_position_embeddings = 4096;
  norm_eps = 1e-5;
  bos_token_id = 128000;
  eos_token_id = 128001;
}

void ArceeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  head_dim_field(v);
}

void ArceeConfig::post_init() {
  DecoderConfig::post_init();
  head_dim = head_size();
}

}  // namespace easydel
