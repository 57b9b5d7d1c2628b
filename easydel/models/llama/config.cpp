#include "easydel/models/llama/config.h"

#include "easydel/infra/config_check.h"
#include "easydel/infra/weight_specs.h"

namespace easydel {

LlamaConfig::LlamaConfig() {
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

void LlamaConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_attention_heads", num_attention_heads, "Query heads.");
  v("num_key_value_heads", num_key_value_heads, "Fewer than the query heads means grouped attention.");
  v("hidden_act", hidden_act, "Activation of the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence.");
  v("initializer_range", initializer_range, "Standard deviation of new weights.");
  v("rms_norm_eps", rms_norm_eps, "Added under the root of the norms.");
  v("use_cache", use_cache, "Keep keys and values while generating.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("bos_token_id", bos_token_id, "Token that begins a text.");
  v("eos_token_id", eos_token_id, "Token or tokens that end a text.");
  v("pretraining_tp", pretraining_tp, "Kept for transformers.");
  v("tie_word_embeddings", tie_word_embeddings, "One matrix for embedding and output.");
  v("rope_parameters", rope, "Rotary position embeddings.");
  v("attention_bias", attention_bias, "Biases on the attention's projections.");
  v("attention_dropout", attention_dropout, "Share of attention weights that training drops.");
  v("mlp_bias", mlp_bias, "Biases in the MLP.");
  v("head_dim", head_dim, "Size of a head; null: hidden_size / num_attention_heads.");
}

void LlamaConfig::post_init() {
  num_key_value_heads = key_value_heads();
  head_dim = head_size();
  fill_original_length(rope, max_position_embeddings);
}

void LlamaConfig::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.activation("hidden_act", hidden_act);
  check.multiple("hidden_size", hidden_size, "num_attention_heads", num_attention_heads);  // transformers insists
  check.above_zero("rms_norm_eps", rms_norm_eps);
  check.between_zero_and_one("attention_dropout", attention_dropout);
  check.rope();
}

PartitionRules LlamaConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.q_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.q_proj\\.bias$", specs.bias(LogicalAxis::Head)},
      {"self_attn\\.[kv]_proj\\.weight$", specs.split_first(LogicalAxis::KvHead)},
      {"self_attn\\.[kv]_proj\\.bias$", specs.bias(LogicalAxis::KvHead)},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"mlp\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.(gate|up)_proj\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
      {"mlp\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms, and the biases that are added after a row-parallel sum
  };
}

}  // namespace easydel
