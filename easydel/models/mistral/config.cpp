#include "easydel/models/mistral/config.h"

namespace easydel {

MistralConfig::MistralConfig() {
  vocab_size = 32000;
  hidden_size = 4096;
  intermediate_size = 14336;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 4096 * 32;
  bos_token_id = 1;
  eos_token_id = 2;
  sliding_window = 4096;
}

void MistralConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
}

void MistralConfig::post_init() {
  DecoderConfig::post_init();
  head_dim = head_size();
}

}  // namespace easydel
