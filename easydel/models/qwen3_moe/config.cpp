#include "easydel/models/qwen3_moe/config.h"

#include <algorithm>

#include "easydel/infra/config_check.h"
#include "easydel/infra/weight_specs.h"

namespace easydel {

Qwen3MoeConfig::Qwen3MoeConfig() {
  vocab_size = 151936;
  hidden_size = 2048;
  intermediate_size = 6144;
  num_hidden_layers = 24;
  num_attention_heads = 32;
  num_key_value_heads = 4;
  hidden_act = "silu";
  max_position_embeddings = 32768;
}

void Qwen3MoeConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP in layers without experts.");
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_attention_heads", num_attention_heads, "Query heads.");
  v("num_key_value_heads", num_key_value_heads, "Fewer than the query heads means grouped attention.");
  v("hidden_act", hidden_act, "Activation of the experts and the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence.");
  v("initializer_range", initializer_range, "Standard deviation of new weights.");
  v("rms_norm_eps", rms_norm_eps, "Added under the root of the norms.");
  v("use_cache", use_cache, "Keep keys and values while generating.");
  v("tie_word_embeddings", tie_word_embeddings, "One matrix for embedding and output.");
  v("rope_parameters", rope, "Rotary position embeddings.");
  v("attention_bias", attention_bias, "Biases on the projections of the attention.");
  v("use_sliding_window", use_sliding_window, "Whether there is a window.");
  v("sliding_window", sliding_window, "Tokens that a query sees back; null: all.");
  v("attention_dropout", attention_dropout, "Share of attention weights that training drops.");
  v("decoder_sparse_step", decoder_sparse_step, "Every so many layers one has experts.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("num_local_experts", num_local_experts, "Experts in each layer that has some.", {"num_experts"});
  v("num_experts_per_tok", num_experts_per_tok, "Experts that each token goes to.");
  v("norm_topk_prob", norm_topk_prob, "The weights of a token's experts sum to one.");
  v("output_router_logits", output_router_logits, "Return router logits, and add the balancing loss.");
  v("router_aux_loss_coef", router_aux_loss_coef, "Weight of the balancing loss.");
  v("mlp_only_layers", mlp_only_layers, "Layers without experts, whatever the step is.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Token that begins a text.");
  v("eos_token_id", eos_token_id, "Token or tokens that end a text.");
  v.only_when_changed();
  v("head_dim", head_dim, "Size of a head; null: hidden_size / num_attention_heads.");
}

void Qwen3MoeConfig::post_init() {
  num_key_value_heads = key_value_heads();
  if (!use_sliding_window) sliding_window.reset();
  if (!mlp_only_layers) mlp_only_layers.emplace();
  fill_original_length(rope, max_position_embeddings);
}

bool Qwen3MoeConfig::has_experts(int64_t layer) const {
  if (num_local_experts == 0 || (layer + 1) % decoder_sparse_step != 0) return false;
  return !mlp_only_layers ||
         std::find(mlp_only_layers->begin(), mlp_only_layers->end(), layer) == mlp_only_layers->end();
}

void Qwen3MoeConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.activation("hidden_act", hidden_act);
  check.above_zero("rms_norm_eps", rms_norm_eps);
  check.between_zero_and_one("attention_dropout", attention_dropout);
  check.at_least("sliding_window", sliding_window, 1);
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("decoder_sparse_step", decoder_sparse_step, 1);
  check.at_least("num_local_experts", num_local_experts, 0);
  if (num_local_experts > 0) check.top_k(num_experts_per_tok, "num_local_experts", num_local_experts);
  check.rope();
}

PartitionRules Qwen3MoeConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"self_attn\\.q_proj\\.bias$", specs.bias(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      // Experts are stacked: [expert, out, in].
      {"experts\\.gate_up_proj$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"experts\\.down_proj$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
      {"mlp\\.gate\\.weight$", specs.shard_second()},
      {"mlp\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms
  };
}

}  // namespace easydel
