#include "easydel/models/qwen3/config.h"

namespace easydel {

Qwen3Config::Qwen3Config() {
  vocab_size = 151936;
  hidden_size = 4096;
  intermediate_size = 22016;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 32;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  sliding_window = 4096;
}

void Qwen3Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  v("use_sliding_window", use_sliding_window, "Whether layers have windows at all.");
  v("max_window_layers", max_window_layers, "Number of lower layers with full attention, if layer_types is not given.");
  window_fields(v);
}

void Qwen3Config::post_init() {
  DecoderConfig::post_init();
  upper_windows(use_sliding_window, max_window_layers);
}

}  // namespace easydel
