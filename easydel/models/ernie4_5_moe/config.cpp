#include "easydel/models/ernie4_5_moe/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Ernie4_5_MoeConfig::Ernie4_5_MoeConfig() {
  attention_dropout_key_ = nullptr;
  experts_key_ = "moe_num_experts";
  top_k_key_ = "moe_k";
  vocab_size = 103424;
  hidden_size = 2560;
  intermediate_size = 12288;
  num_hidden_layers = 28;
  num_attention_heads = 20;
  num_key_value_heads = 4;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1e-5;
  pad_token_id = 0;
  bos_token_id = 1;
  eos_token_id = 2;
  tie_word_embeddings = true;
  rope.rope_theta = 5e5;
  num_local_experts = 64;
  num_experts_per_tok = 6;
}

void Ernie4_5_MoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  expert_fields(v);
  v("use_bias", use_bias, "Biases on every projection but the experts'.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("moe_num_shared_experts", moe_num_shared_experts, "Shared experts, which all tokens go through, as one MLP.");
  v("moe_layer_start_index", moe_layer_start_index, "The first layer with experts.");
  v("moe_layer_end_index", moe_layer_end_index, "The last one; -1: the last of all.");
  v("moe_layer_interval", moe_layer_interval, "Every n-th layer between them has experts.");
  v("moe_norm_min", moe_norm_min, "The least sum that the weights of a token's experts are divided by.");
  v.only_when_changed();
  head_dim_field(v);
}

void Ernie4_5_MoeConfig::post_init() {
  MoeConfig::post_init();
  if (moe_layer_end_index == -1) moe_layer_end_index = num_hidden_layers - 1;
}

bool Ernie4_5_MoeConfig::has_experts(int64_t layer) const {
  return (layer + 1) % moe_layer_interval == 0 && layer >= moe_layer_start_index && layer <= moe_layer_end_index;
}

void Ernie4_5_MoeConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("moe_num_shared_experts", moe_num_shared_experts, 0);
  check.at_least("moe_layer_interval", moe_layer_interval, 1);
  check.above_zero("moe_norm_min", moe_norm_min);
}

}  // namespace easydel
