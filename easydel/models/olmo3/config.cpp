#include "easydel/models/olmo3/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Olmo3Config::Olmo3Config() {
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
  sliding_window = 4096;
  rope_by_type.full_attention.rope_theta = rope_by_type.sliding_attention.rope_theta = 5e5;
}

void Olmo3Config::fields(FieldVisitor& v) {
  common_fields(v);
  bias_field(v);
  window_fields(v);
  v("rope_parameters", rope_by_type, "Rotary position embeddings of each kind of layer.");
  v.only_when_changed();
  head_dim_field(v);
}

void Olmo3Config::post_init() {
  rope = rope_by_type.full_attention;
  DecoderConfig::post_init();
  fill_original_length(rope_by_type.full_attention, max_position_embeddings);
  fill_original_length(rope_by_type.sliding_attention, max_position_embeddings);
  alternate_layers(4);
}

void Olmo3Config::validate() const {
  ConfigCheck(*this).decoder(whole_heads_);  // rotary embeddings are checked by the size of a head
  check_rope(rope_by_type.full_attention, "[Olmo3Config] ", head_size(), "rope_parameters.full_attention");
  check_rope(rope_by_type.sliding_attention, "[Olmo3Config] ", head_size(), "rope_parameters.sliding_attention");
  DecoderConfig::validate();
}

// Files have one rope_theta, and a rope_scaling of the layers that see everything.
void Olmo3Config::rename_older_keys(Json& given, bool is_whole) const {
  if (is_whole) split_rope_by_layer_type(given, 5e5, 5e5);
}

}  // namespace easydel
