#include "easydel/models/gemma/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

GemmaConfig::GemmaConfig() {
  vocab_size = 256000;
  hidden_size = 3072;
  intermediate_size = 24576;
  num_hidden_layers = 28;
  num_attention_heads = 16;
  num_key_value_heads = 16;
  head_dim = 256;
  hidden_act = "gelu_pytorch_tanh";
  max_position_embeddings = 8192;
  pad_token_id = 0;
  eos_token_id = 1;
  bos_token_id = 2;
  tie_word_embeddings = true;
}

void GemmaConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  v("use_bidirectional_attention", use_bidirectional_attention, "Not supported: bidirectional attention.");
}

void GemmaConfig::post_init() {
  DecoderConfig::post_init();
  if (hidden_act == "gelu") hidden_act = "gelu_pytorch_tanh";  // what the first files meant
}

void GemmaConfig::validate() const {
  DecoderConfig::validate();
  ConfigCheck(*this).causal("use_bidirectional_attention", use_bidirectional_attention);
}

}  // namespace easydel
