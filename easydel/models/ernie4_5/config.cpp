#include "easydel/models/ernie4_5/config.h"

namespace easydel {

Ernie4_5Config::Ernie4_5Config() {
  attention_dropout_key_ = nullptr;
  vocab_size = 103424;
  hidden_size = 1024;
  intermediate_size = 3072;
  num_hidden_layers = 18;
  num_attention_heads = 16;
  num_key_value_heads = 2;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1e-5;
  pad_token_id = 0;
  bos_token_id = 1;
  eos_token_id = 2;
  tie_word_embeddings = true;
  rope.rope_theta = 5e5;
}

void Ernie4_5Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  v("use_bias", use_bias, "Biases on every projection.");
}

void Ernie4_5Config::post_init() {
  DecoderConfig::post_init();
  head_dim = head_size();
}

}  // namespace easydel
