#include "easydel/models/olmoe/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

OlmoeConfig::OlmoeConfig() {
  experts_key_ = "num_experts";
  experts_alias_ = "num_local_experts";
  vocab_size = 50304;
  hidden_size = 2048;
  intermediate_size = 2048;
  num_hidden_layers = 16;
  num_attention_heads = 16;
  hidden_act = "silu";
  max_position_embeddings = 4096;
  norm_eps = 1e-5;
  pad_token_id = 1;
  eos_token_id = 50279;
  num_local_experts = 64;
  num_experts_per_tok = 8;
  router_aux_loss_coef = 0.01;
}

void OlmoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  expert_fields(v);
  v("clip_qkv", clip_qkv, "Queries, keys and values are clamped to this size; null: not.");
  v("norm_topk_prob", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.");
}

void OlmoeConfig::validate() const {
  MoeConfig::validate();
  if (clip_qkv) ConfigCheck(*this).above_zero("clip_qkv", *clip_qkv);
}

}  // namespace easydel
