#include "easydel/models/qwen2/config.h"

namespace easydel {

Qwen2Config::Qwen2Config() {
  vocab_size = 151936;
  hidden_size = 4096;
  intermediate_size = 22016;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  sliding_window = 4096;
}

void Qwen2Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("use_sliding_window", use_sliding_window, "Whether layers have windows at all.");
  v("max_window_layers", max_window_layers, "Number of lower layers with full attention, if layer_types is not given.");
  window_fields(v);
  v.only_when_changed();
  head_dim_field(v);
}

void Qwen2Config::post_init() {
  DecoderConfig::post_init();
  upper_windows(use_sliding_window, max_window_layers);
}

}  // namespace easydel
