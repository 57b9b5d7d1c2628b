#include "easydel/models/granitemoe/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

GraniteMoeConfig::GraniteMoeConfig() {
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

void GraniteMoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  expert_fields(v);
  v("embedding_multiplier", embedding_multiplier, "Factor of the embeddings.");
  v("logits_scaling", logits_scaling, "Divisor of the logits.");
  v("residual_multiplier", residual_multiplier, "Factor of what attention and experts add.");
  v("attention_multiplier", attention_multiplier, "Factor of the attention's scores.");
  v.only_when_changed();
  head_dim_field(v);
}

void GraniteMoeConfig::validate() const {
  MoeConfig::validate();
  ConfigCheck(*this).above_zero("logits_scaling", logits_scaling);
}

}  // namespace easydel
