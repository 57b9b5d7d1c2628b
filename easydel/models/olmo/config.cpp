#include "easydel/models/olmo/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

OlmoConfig::OlmoConfig() {
  norm_eps_key_ = nullptr;
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
}

void OlmoConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("clip_qkv", clip_qkv, "Queries, keys and values are clamped to this size; null: not.");
  v.only_when_changed();
  head_dim_field(v);
}

void OlmoConfig::validate() const {
  DecoderConfig::validate();
  if (clip_qkv) ConfigCheck(*this).above_zero("clip_qkv", *clip_qkv);
}

}  // namespace easydel
