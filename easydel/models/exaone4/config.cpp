#include "easydel/models/exaone4/config.h"

#include "easydel/core/error.h"

namespace easydel {

Exaone4Config::Exaone4Config() {
  vocab_size = 102400;
  hidden_size = 4096;
  intermediate_size = 16384;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  bos_token_id = 0;
  eos_token_id = 2;
  sliding_window = 4096;
}

void Exaone4Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  window_fields(v);
  v("sliding_window_pattern", sliding_window_pattern,
    "Every n-th layer has full attention, if layer_types is not given.");
  v.only_when_changed();
  head_dim_field(v);
}

void Exaone4Config::post_init() {
  DecoderConfig::post_init();
  if (!sliding_window) sliding_window_pattern = 0;
  if (sliding_window_pattern.is_int() && sliding_window_pattern.as_int() > 0)
    alternate_layers(sliding_window_pattern.as_int());
}

void Exaone4Config::validate() const {
  require<ConfigError>(
      layer_types.has_value(),
      "[Exaone4Config] layer_types must be given where sliding_window_pattern is not a period; got null.");
  DecoderConfig::validate();
}

}  // namespace easydel
