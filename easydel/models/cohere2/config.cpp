#include "easydel/models/cohere2/config.h"

namespace easydel {

Cohere2Config::Cohere2Config() {
  norm_eps_key_ = "layer_norm_eps";
  vocab_size = 256000;
  hidden_size = 8192;
  intermediate_size = 22528;
  num_hidden_layers = 40;
  num_attention_heads = 64;
  hidden_act = "silu";
  max_position_embeddings = 8192;
  norm_eps = 1e-5;
  pad_token_id = 0;
  bos_token_id = 5;
  eos_token_id = 255001;
  tie_word_embeddings = true;
  sliding_window = 4096;
}

void Cohere2Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("logit_scale", logit_scale, "Multiplies the logits.");
  window_fields(v);
  head_dim_field(v);
}

void Cohere2Config::post_init() {
  DecoderConfig::post_init();
  if (num_attention_heads > 0) head_dim = hidden_size / num_attention_heads;
  alternate_layers(4);
}

// Older files have a period in place of layer_types.
void Cohere2Config::rename_older_keys(Json& given, bool is_whole) const {
  if (!is_whole || !given.is_object()) return;
  read_window_pattern(given);
  given.as_object().erase("sliding_window_pattern");
}

}  // namespace easydel
