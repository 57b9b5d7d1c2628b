#include "easydel/models/mixtral/config.h"

#include "easydel/infra/config_check.h"
#include "easydel/infra/weight_specs.h"

namespace easydel {

MixtralConfig::MixtralConfig() {
  vocab_size = 32000;
  hidden_size = 4096;
  intermediate_size = 14336;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 4096 * 32;
  bos_token_id = 1;
  eos_token_id = 2;
  rope.rope_theta = 1e6;
}

void MixtralConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of each expert.");
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_attention_heads", num_attention_heads, "Query heads.");
  v("num_key_value_heads", num_key_value_heads, "Fewer than the query heads means grouped attention.");
  v("head_dim", head_dim, "Size of a head; null: hidden_size / num_attention_heads.");
  v("hidden_act", hidden_act, "Activation of the experts.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence.");
  v("initializer_range", initializer_range, "Standard deviation of new weights.");
  v("rms_norm_eps", rms_norm_eps, "Added under the root of the norms.");
  v("use_cache", use_cache, "Keep keys and values while generating.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Token that begins a text.");
  v("eos_token_id", eos_token_id, "Token or tokens that end a text.");
  v("tie_word_embeddings", tie_word_embeddings, "One matrix for embedding and output.");
  v("sliding_window", sliding_window, "Tokens that a query sees back; null: all.");
  v("attention_dropout", attention_dropout, "Share of attention weights that training drops.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts that each token goes to.");
  v("num_local_experts", num_local_experts, "Experts in each layer.", {"num_experts"});
  v("output_router_logits", output_router_logits, "Return router logits, and add the balancing loss.");
  v("router_aux_loss_coef", router_aux_loss_coef, "Weight of the balancing loss.");
  v("router_jitter_noise", router_jitter_noise, "Noise on the router's input in training.");
  v("rope_parameters", rope, "Rotary position embeddings.");
}

void MixtralConfig::post_init() {
  num_key_value_heads = key_value_heads();
  fill_original_length(rope, max_position_embeddings);
}

void MixtralConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.activation("hidden_act", hidden_act);
  check.above_zero("rms_norm_eps", rms_norm_eps);
  check.between_zero_and_one("attention_dropout", attention_dropout);
  check.at_least("sliding_window", sliding_window, 1);
  check.at_least("num_local_experts", num_local_experts, 1);
  check.at_least("num_experts_per_tok", num_experts_per_tok, 1);
  require<ConfigError>(num_experts_per_tok <= num_local_experts,
                       "[MixtralConfig] num_experts_per_tok must be at most num_local_experts; got ",
                       num_experts_per_tok, " and ", num_local_experts, ".");
  check.between_zero_and_one("router_jitter_noise", router_jitter_noise);
  check.rope();
}

PartitionRules MixtralConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      // Experts are stacked: [expert, out, in].
      {"experts\\.(gate_up_proj|w1|w3)(\\.weight)?$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"experts\\.(down_proj|w2)(\\.weight)?$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
      {"(mlp|block_sparse_moe)\\.gate\\.weight$", specs.shard_second()},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms
  };
}

}  // namespace easydel
