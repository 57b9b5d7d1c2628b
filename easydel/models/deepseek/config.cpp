#include "easydel/models/deepseek/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

DeepseekConfig::DeepseekConfig() {
  vocab_size = 102400;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 30;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 2048;
  bos_token_id = 100000;
  eos_token_id = 100001;
  least_experts_ = 0;
  experts_key_ = "n_routed_experts";
}

void DeepseekConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("n_routed_experts", n_routed_experts, "Routed experts; null: none.");
  v("n_shared_experts", n_shared_experts, "Shared experts, which all tokens go through, as one MLP; null: none.");
  v("num_experts_per_tok", experts_per_tok, "Experts per token.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("moe_layer_freq", moe_layer_freq, "Every n-th layer has experts.");
  v("first_k_dense_replace", first_k_dense_replace, "Number of first layers with a dense MLP instead of experts.");
  v("norm_topk_prob", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.");
  v("scoring_func", scoring_func, "How the router's logits become weights: softmax.");
  v("aux_loss_alpha", aux_loss_alpha, "Kept for its own code: training here has no balancing loss.");
  v("seq_aux", seq_aux, "Kept for its own code: training here has no balancing loss.");
  v("pretraining_tp", pretraining_tp, "Kept for its own code.");
}

void DeepseekConfig::post_init() {
  MoeConfig::post_init();
  num_local_experts = n_routed_experts.value_or(0);
  num_experts_per_tok = experts_per_tok.value_or(0);
}

bool DeepseekConfig::has_experts(int64_t layer) const {
  return num_local_experts > 0 && layer >= first_k_dense_replace && layer % moe_layer_freq == 0;
}

void DeepseekConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("moe_layer_freq", moe_layer_freq, 1);
  check.at_least("first_k_dense_replace", first_k_dense_replace, 0);
  check.at_least("n_shared_experts", n_shared_experts, 1);
  check.one_of("scoring_func", scoring_func, {"softmax"});
}

RouterBalance DeepseekConfig::router_balance() const { return {.top_k = num_experts_per_tok}; }

}  // namespace easydel
