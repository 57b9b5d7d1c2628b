#include "easydel/models/phi3/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Phi3Config::Phi3Config() {
  vocab_size = 32064;
  hidden_size = 3072;
  intermediate_size = 8192;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 4096;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 32000;
  pad_token_id = 32000;
}

void Phi3Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("resid_pdrop", resid_pdrop, "Dropout probability of each layer's outputs.");
  v("embd_pdrop", embd_pdrop, "Kept for transformers, which drops no embeddings either.");
  v("original_max_position_embeddings", original_max_position_embeddings, "Longest sequence of the pretraining.");
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
  v.only_when_changed();
  head_dim_field(v);
}

void Phi3Config::post_init() {
  num_key_value_heads = key_value_heads();
  if (rope.rope_type == "su" || rope.rope_type == "yarn") rope.rope_type = "longrope";  // its older names
  if (rope.rope_type == "longrope") rope.original_max_position_embeddings = original_max_position_embeddings;
}

void Phi3Config::validate() const {
  require<ConfigError>(rope.rope_type == "default" || rope.rope_type == "longrope",
                       "[Phi3Config] rope_parameters.rope_type must be default or longrope; got \"", rope.rope_type,
                       "\".");
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.between_zero_and_one("resid_pdrop", resid_pdrop);
  check.between_zero_and_one("embd_pdrop", embd_pdrop);
  check.at_least("original_max_position_embeddings", original_max_position_embeddings, 1);
}

}  // namespace easydel
