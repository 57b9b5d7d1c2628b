#include "easydel/models/llama/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

LlamaConfig::LlamaConfig() {
  vocab_size = 32000;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 2048;
  bos_token_id = 1;
  eos_token_id = 2;
}

void LlamaConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("pretraining_tp", pretraining_tp, "Kept for transformers.");
  bias_field(v);
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  head_dim_field(v);
}

void LlamaConfig::post_init() {
  DecoderConfig::post_init();
  head_dim = head_size();
}

void LlamaConfig::validate() const {
  DecoderConfig::validate();
  // transformers insists
  ConfigCheck(*this).multiple("hidden_size", hidden_size, "num_attention_heads", num_attention_heads);
}

}  // namespace easydel
