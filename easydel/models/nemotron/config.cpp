#include "easydel/models/nemotron/config.h"

namespace easydel {

NemotronConfig::NemotronConfig() {
  norm_eps_key_ = "norm_eps";
  vocab_size = 256000;
  hidden_size = 6144;
  intermediate_size = 24576;
  num_hidden_layers = 32;
  num_attention_heads = 48;
  hidden_act = "relu2";
  max_position_embeddings = 4096;
  initializer_range = 0.0134;
  norm_eps = 1e-5;
  bos_token_id = 2;
  eos_token_id = 3;
  rope.partial_rotary_factor = 0.5;
}

void NemotronConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
}

// num_key_value_heads stays null.
void NemotronConfig::post_init() {
  fill_original_length(rope, max_position_embeddings);
  head_dim = head_size();
}

void NemotronConfig::rename_older_keys(Json& given, bool is_whole) const { fill_partial_rotary(given, is_whole, 0.5); }

}  // namespace easydel
