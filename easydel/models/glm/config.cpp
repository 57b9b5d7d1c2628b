#include "easydel/models/glm/config.h"

namespace easydel {

GlmConfigBase::GlmConfigBase() {
  vocab_size = 151552;
  hidden_size = 4096;
  intermediate_size = 13696;
  num_hidden_layers = 40;
  num_attention_heads = 32;
  num_key_value_heads = 2;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1.5625e-07;
  pad_token_id = 151329;
  attention_bias = true;
  rope.partial_rotary_factor = 0.5;
}

void GlmConfigBase::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  v("attention_bias", attention_bias, "Biases on queries, keys and values.");
}

void GlmConfigBase::post_init() {
  DecoderConfig::post_init();
  if (eos_token_id.empty()) eos_token_id = {151329, 151336, 151338};
}

void GlmConfigBase::rename_older_keys(Json& given, bool is_whole) const { fill_partial_rotary(given, is_whole, 0.5); }

}  // namespace easydel
