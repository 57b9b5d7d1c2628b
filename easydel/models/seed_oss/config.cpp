#include "easydel/models/seed_oss/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

SeedOssConfig::SeedOssConfig() {
  vocab_size = 155136;
  hidden_size = 4096;
  intermediate_size = 27648;
  num_hidden_layers = 64;
  num_attention_heads = 80;
  num_key_value_heads = 8;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 524288;
  pad_token_id = 1;
  bos_token_id = 0;
  eos_token_id = 2;
  attention_bias = true;
  attention_dropout = 0.1;
}

void SeedOssConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  v("attention_bias", attention_bias, "Biases on queries, keys and values.");
  v("attention_out_bias", attention_out_bias, "A bias on the attention's output.");
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  v("residual_dropout", residual_dropout, "Dropout probability of the outputs of attention and MLP.");
  v("pretraining_tp", pretraining_tp, "Kept for transformers.");
}

void SeedOssConfig::post_init() {
  DecoderConfig::post_init();
  head_dim = head_size();
}

void SeedOssConfig::validate() const {
  DecoderConfig::validate();
  ConfigCheck(*this).between_zero_and_one("residual_dropout", residual_dropout);
}

}  // namespace easydel
