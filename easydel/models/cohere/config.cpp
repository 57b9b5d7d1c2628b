#include "easydel/models/cohere/config.h"

namespace easydel {

CohereConfig::CohereConfig() {
  norm_eps_key_ = "layer_norm_eps";
  vocab_size = 256000;
  hidden_size = 8192;
  intermediate_size = 22528;
  num_hidden_layers = 40;
  num_attention_heads = 64;
  hidden_act = "silu";
  max_position_embeddings = 8192;
  norm_eps = 1e-5;
  pad_token_id = 0;
  bos_token_id = 5;
  eos_token_id = 255001;
  tie_word_embeddings = true;
  rope.rope_theta = 5e5;
}

void CohereConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("logit_scale", logit_scale, "Multiplies the logits.");
  v("use_qk_norm", use_qk_norm, "Norms on q and k, with weights for each head.");
  v.only_when_changed();
  head_dim_field(v);
}

}  // namespace easydel
