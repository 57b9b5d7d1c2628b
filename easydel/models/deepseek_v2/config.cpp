#include "easydel/models/deepseek_v2/config.h"

#include "easydel/infra/config_check.h"
#include "easydel/infra/weight_specs.h"

namespace easydel {

DeepseekV2Config::DeepseekV2Config() {
  vocab_size = 102400;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  max_position_embeddings = 2048;
  bos_token_id = 1;
  eos_token_id = 2;
  hidden_act = "silu";
}

void DeepseekV2Config::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP in layers without experts.");
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_attention_heads", num_attention_heads, "Heads.");
  v("num_key_value_heads", num_key_value_heads, "As many as num_attention_heads: each has keys of its own.");
  v("hidden_act", hidden_act, "Activation of the experts and the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence.");
  v("initializer_range", initializer_range, "Standard deviation of new weights.");
  v("rms_norm_eps", rms_norm_eps, "Added under the root of the norms.");
  v("use_cache", use_cache, "Keep the latent while generating.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Token that begins a text.");
  v("eos_token_id", eos_token_id, "Token or tokens that end a text.");
  v("pretraining_tp", pretraining_tp, "Kept as it is.");
  v("tie_word_embeddings", tie_word_embeddings, "One matrix for embedding and output.");
  v("rope_parameters", rope, "Rotary position embeddings.");
  v("attention_bias", attention_bias, "Biases on the projections to the latents and out of the attention.");
  v("attention_dropout", attention_dropout, "Share of attention weights that training drops.");
  v("head_dim", head_dim, "What is rotated of a head: qk_rope_head_dim.");
  v("kv_lora_rank", kv_lora_rank, "Size of the latent that keys and values are made of.");
  v("q_lora_rank", q_lora_rank, "Size of the latent that queries are made of; null: none.");
  v("qk_nope_head_dim", qk_nope_head_dim, "Size of a head of q and k that is not rotated.");
  v("qk_rope_head_dim", qk_rope_head_dim, "Size of a head of q that is rotated; k has one for all heads.");
  v("qk_head_dim", qk_head_dim, "The sum of the two.");
  v("v_head_dim", v_head_dim, "Size of a head of v.");
  v("first_k_dense_replace", first_k_dense_replace, "The first so many layers have an MLP in place of experts.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("n_routed_experts", n_routed_experts, "Experts that tokens are sent to.", {"num_experts"});
  v("n_shared_experts", n_shared_experts, "Experts that all tokens go through, as one MLP.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts that each token is sent to.");
  v("norm_topk_prob", norm_topk_prob, "The weights of a token's experts sum to one.");
  v("routed_scaling_factor", routed_scaling_factor, "Of the experts' weights, after that.");
  v("n_group", n_group, "Groups of experts.");
  v("topk_group", topk_group, "Groups that a token's experts come from.");
  v("output_router_logits", output_router_logits, "Return router logits.");
  v("mlp_bias", mlp_bias, "Biases in the MLPs.");
  v("topk_method", topk_method, "greedy, or group_limited_greedy with n_group and topk_group.");
}

void DeepseekV2Config::post_init() {
  num_key_value_heads = key_value_heads();
  head_dim = qk_rope_head_dim;
  qk_head_dim = qk_nope_head_dim + qk_rope_head_dim;
  fill_original_length(rope, max_position_embeddings);
}

void DeepseekV2Config::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.activation("hidden_act", hidden_act);
  check.above_zero("rms_norm_eps", rms_norm_eps);
  check.between_zero_and_one("attention_dropout", attention_dropout.value_or(0));
  require<ConfigError>(
      key_value_heads() == num_attention_heads,
      "[DeepseekV2Config] num_key_value_heads must be num_attention_heads, since each head has keys of "
      "its own; got ",
      key_value_heads(), " and ", num_attention_heads, ".");
  check.at_least("kv_lora_rank", kv_lora_rank, 1);
  check.at_least("q_lora_rank", q_lora_rank, 1);
  check.at_least("qk_nope_head_dim", qk_nope_head_dim, 1);
  check.at_least("qk_rope_head_dim", qk_rope_head_dim, 1);
  check.at_least("v_head_dim", v_head_dim, 1);
  check.at_least("first_k_dense_replace", first_k_dense_replace, 0);
  check.rope();
  if (first_k_dense_replace >= num_hidden_layers) return;  // no experts
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("n_routed_experts", n_routed_experts, 1);
  check.at_least("n_shared_experts", n_shared_experts, 1);
  check.top_k(num_experts_per_tok, "n_routed_experts", n_routed_experts);
  check.one_of("topk_method", topk_method.value_or("null"), {"greedy", "group_limited_greedy"});
  if (topk_method == "group_limited_greedy") {
    check.groups(n_group.value_or(1), topk_group.value_or(1), "n_routed_experts", n_routed_experts,
                 num_experts_per_tok.value_or(1));
  }
}

PartitionRules DeepseekV2Config::get_partition_rules(bool fully_sharded) const {
  return latent_moe_rules(WeightSpecs(sharding, fully_sharded));
}

}  // namespace easydel
