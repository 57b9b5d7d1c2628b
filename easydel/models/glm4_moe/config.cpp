#include "easydel/models/glm4_moe/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Glm4MoeConfig::Glm4MoeConfig() {
  experts_key_ = "n_routed_experts";
  whole_heads_ = false;
  vocab_size = 151552;
  hidden_size = 4096;
  intermediate_size = 10944;
  num_hidden_layers = 46;
  num_attention_heads = 96;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1e-5;
  num_local_experts = 128;
  num_experts_per_tok = 8;
  rope.partial_rotary_factor = 0.5;
}

void Glm4MoeConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("attention_bias", attention_bias, "Biases on queries, keys and values.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("n_routed_experts", num_local_experts, "Routed experts.", {"num_local_experts"});
  v("n_shared_experts", n_shared_experts, "Shared experts, which all tokens go through, as one MLP.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts per token.");
  v("norm_topk_prob", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.");
  v("routed_scaling_factor", routed_scaling_factor, "Factor of the experts' weights, after normalization.");
  v("n_group", n_group, "Groups of experts.");
  v("topk_group", topk_group, "Groups that a token's experts come from.");
  v("first_k_dense_replace", first_k_dense_replace, "Number of first layers with a dense MLP instead of experts.");
  v("use_qk_norm", use_qk_norm, "Norms on the heads of queries and keys.");
  v("output_router_logits", output_router_logits, "Return router logits.");
  v("num_nextn_predict_layers", num_nextn_predict_layers, "Kept for transformers: further layers of the files.",
    {"num_mtp_layers"});
  v.only_when_changed();
  head_dim_field(v);
}

void Glm4MoeConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("first_k_dense_replace", first_k_dense_replace, 0);
  if (!has_experts(num_hidden_layers - 1)) return;
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("n_shared_experts", n_shared_experts, 1);
  check.groups(n_group, topk_group, "n_routed_experts", num_local_experts, num_experts_per_tok);
  require<ConfigError>(num_local_experts / n_group >= 2,
                       "[Glm4MoeConfig] n_routed_experts must be at least 2 for each n_group; got ", num_local_experts,
                       " and ", n_group, ".");
}

void Glm4MoeConfig::rename_older_keys(Json& given, bool is_whole) const { fill_partial_rotary(given, is_whole, 0.5); }

RouterBalance Glm4MoeConfig::router_balance() const {
  return {.top_k = num_experts_per_tok, .coefficient = 0, .output_router_logits = output_router_logits};
}

}  // namespace easydel
