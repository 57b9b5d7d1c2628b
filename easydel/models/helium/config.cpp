#include "easydel/models/helium/config.h"

#include "easydel/core/error.h"

namespace easydel {

HeliumConfig::HeliumConfig() {
  vocab_size = 48000;
  hidden_size = 2560;
  intermediate_size = 7040;
  num_hidden_layers = 24;
  num_attention_heads = 20;
  num_key_value_heads = 20;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 4096;
  norm_eps = 1e-8;
  pad_token_id = 3;
  bos_token_id = 1;
  eos_token_id = 2;
  rope.rope_theta = 1e5;
}

void HeliumConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
}

void HeliumConfig::validate() const {
  DecoderConfig::validate();
  require<ConfigError>(head_size() * num_attention_heads == hidden_size,
                       "[HeliumConfig] hidden_size must be num_attention_heads * head_dim; got ", hidden_size, ", ",
                       num_attention_heads, " and ", head_size(), ".");
}

}  // namespace easydel
