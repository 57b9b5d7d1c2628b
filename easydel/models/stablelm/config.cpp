#include "easydel/models/stablelm/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

StableLmConfig::StableLmConfig() {
  norm_eps_key_ = "layer_norm_eps";
  vocab_size = 50304;
  hidden_size = 2560;
  intermediate_size = 6912;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 4096;
  norm_eps = 1e-5;
  bos_token_id = 0;
  eos_token_id = 0;
  rope.partial_rotary_factor = 0.25;
}

void StableLmConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("use_qkv_bias", use_qkv_bias, "Biases on queries, keys and values.");
  v("qk_layernorm", qk_layernorm, "A norm on each head of queries and keys.");
  v("use_parallel_residual", use_parallel_residual, "Parallel attention and MLP: both have the same input.");
  v("hidden_dropout", hidden_dropout, "Dropout probability of the outputs of the MLP.");
}

void StableLmConfig::validate() const {
  DecoderConfig::validate();
  ConfigCheck(*this).between_zero_and_one("hidden_dropout", hidden_dropout);
}

void StableLmConfig::rename_older_keys(Json& given, bool is_whole) const { fill_partial_rotary(given, is_whole, 0.25); }

}  // namespace easydel
