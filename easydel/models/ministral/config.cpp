#include "easydel/models/ministral/config.h"

#include <algorithm>

namespace easydel {

MinistralConfig::MinistralConfig() {
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

void MinistralConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  window_fields(v);
}

void MinistralConfig::post_init() {
  DecoderConfig::post_init();
  if (!layer_types)
    layer_types.emplace(static_cast<std::size_t>(std::max<int64_t>(num_hidden_layers, 0)),
                        std::string(sliding_window ? kSliding : kFull));
}

}  // namespace easydel
