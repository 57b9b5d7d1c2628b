#include "easydel/infra/config/moe_config.h"

#include <string_view>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

// Experts are stacked: [expert, out, in].
std::vector<PartitionRule> expert_rules(const WeightSpecs& specs) {
  return {
      {"(^|\\.)experts\\.(gate_up_proj|w1|w3)(\\.weight)?$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"(^|\\.)experts\\.(down_proj|w2)(\\.weight)?$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
      {"(mlp|block_sparse_moe)\\.(gate|router)\\.weight$", specs.shard_second()},
      {"mlp\\.shared_experts?\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.shared_experts?\\.(gate|up)_proj\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mlp\\.shared_experts?\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
  };
}

}  // namespace

void MoeConfig::expert_fields(FieldVisitor& v) {
  v(experts_key_, num_local_experts, "Experts per MoE layer.", {experts_alias_});
  if (top_k_key_ == std::string_view("num_experts_per_tok"))
    v(top_k_key_, num_experts_per_tok, "Experts per token.");
  else
    v(top_k_key_, num_experts_per_tok, "Experts per token.", {"num_experts_per_tok"});
  v("output_router_logits", output_router_logits, "Return router logits, and add the balancing loss.");
  v("router_aux_loss_coef", router_aux_loss_coef, "Weight of the balancing loss.");
}

void MoeConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least(experts_key_, num_local_experts, least_experts_);
  if (num_local_experts > 0) check.top_k(num_experts_per_tok, experts_key_, num_local_experts);
}

PartitionRules MoeConfig::get_partition_rules(bool fully_sharded) const {
  return rules_behind(expert_rules(WeightSpecs(sharding, fully_sharded)), fully_sharded);
}

RouterBalance MoeConfig::router_balance() const {
  return {.top_k = num_local_experts > 0 ? num_experts_per_tok : 0,
          .coefficient = router_aux_loss_coef,
          .output_router_logits = output_router_logits};
}

void LatentMoeConfig::latent_fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  bias_field(v);
  v("pretraining_tp", pretraining_tp, "Kept as it is.");
  v("head_dim", head_dim, "Rotated dimensions of a head: qk_rope_head_dim.");
  v("kv_lora_rank", kv_lora_rank, "Rank of the latent of keys and values.");
  v("q_lora_rank", q_lora_rank, "Rank of the latent of queries; null: none.");
  v("qk_nope_head_dim", qk_nope_head_dim, "Dimensions of a q and k head without rotary embedding.");
  v("qk_rope_head_dim", qk_rope_head_dim, "Dimensions of a q head with rotary embedding; all heads share those of k.");
  v("qk_head_dim", qk_head_dim, "The sum of the two.");
  v("v_head_dim", v_head_dim, "Size of a head of v.");
  v("first_k_dense_replace", first_k_dense_replace, "Number of first layers with a dense MLP instead of experts.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("n_routed_experts", n_routed_experts, "Routed experts.", {experts_alias_});
  v("n_shared_experts", n_shared_experts, "Shared experts, which all tokens go through, as one MLP.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts per token.");
  v("norm_topk_prob", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.");
  v("routed_scaling_factor", routed_scaling_factor, "Factor of the experts' weights, after normalization.");
  v("n_group", n_group, "Groups of experts.");
  v("topk_group", topk_group, "Groups that a token's experts come from.");
  v("output_router_logits", output_router_logits, "Return router logits.");
}

int64_t LatentMoeConfig::top_k() const {
  require<ConfigError>(num_experts_per_tok.has_value(), "[", class_name(),
                       "] num_experts_per_tok must be given if layers have experts; got null.");
  return *num_experts_per_tok;
}

void LatentMoeConfig::post_init() {
  DecoderConfig::post_init();
  head_dim = qk_rope_head_dim;
  qk_head_dim = qk_nope_head_dim + qk_rope_head_dim;
}

void LatentMoeConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  require<ConfigError>(key_value_heads() == num_attention_heads, "[", class_name(),
                       "] num_key_value_heads must be num_attention_heads, since each head has its own keys; got ",
                       key_value_heads(), " and ", num_attention_heads, ".");
  check.at_least("kv_lora_rank", kv_lora_rank, 1);
  check.at_least("q_lora_rank", q_lora_rank, 1);
  check.at_least("qk_nope_head_dim", qk_nope_head_dim, 1);
  check.at_least("qk_rope_head_dim", qk_rope_head_dim, 1);
  check.at_least("v_head_dim", v_head_dim, 1);
  check.at_least("first_k_dense_replace", first_k_dense_replace, 0);
  if (!has_experts(num_hidden_layers - 1)) return;
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("n_routed_experts", n_routed_experts, 1);
  check.at_least("n_shared_experts", n_shared_experts, 1);
  check.top_k(num_experts_per_tok, "n_routed_experts", n_routed_experts);
}

void LatentMoeConfig::check_groups() const {
  ConfigCheck(*this).groups(n_group.value_or(1), topk_group.value_or(1), "n_routed_experts", n_routed_experts,
                            num_experts_per_tok.value_or(1));
}

// These families may say null for no dropout.
void LatentMoeConfig::rename_older_keys(Json& given, bool) const {
  const Json* dropout = given.is_object() ? given.find("attention_dropout") : nullptr;
  if (dropout && dropout->is_null()) given["attention_dropout"] = 0.0;
}

PartitionRules LatentMoeConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  std::vector<PartitionRule> rules = expert_rules(specs);
  rules.insert(rules.end(), {{"self_attn\\.(q_b|kv_b)_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
                             {"self_attn\\.(q_a_proj|kv_a_proj_with_mqa)\\.weight$", specs.shard_second()}});
  return rules_behind(std::move(rules), fully_sharded);
}

RouterBalance LatentMoeConfig::router_balance() const {
  return {.top_k = num_experts_per_tok.value_or(0), .coefficient = 0, .output_router_logits = output_router_logits};
}

}  // namespace easydel
