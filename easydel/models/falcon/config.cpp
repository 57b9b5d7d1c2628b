#include "easydel/models/falcon/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

FalconConfig::FalconConfig() {
  intermediate_size_key_ = nullptr;  // ffn_hidden_size, which has no other name
  has_kv_heads_ = false;
  hidden_act_key_ = "activation";
  norm_eps_key_ = "layer_norm_epsilon";
  vocab_size = 65024;
  hidden_size = 4544;
  num_hidden_layers = 32;
  num_attention_heads = 71;
  hidden_act = "gelu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  bos_token_id = 11;
  eos_token_id = 11;
  tie_word_embeddings = true;
}

void FalconConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("ffn_hidden_size", intermediate_size, "Width of the MLP; by default 4 * hidden_size.");
  v("num_kv_heads", num_kv_heads, "Key/value heads, with new_decoder_architecture.");
  v("num_ln_in_parallel_attn", num_ln_in_parallel_attn, "Norms before attention and MLP; null: 2 in the new form.");
  v("hidden_dropout", hidden_dropout, "Dropout probability of the outputs of attention and MLP.");
  v("alibi", alibi, "ALiBi instead of rotary embeddings.");
  v("new_decoder_architecture", new_decoder_architecture, "The form of the larger models.");
  v("multi_query", multi_query, "One key/value head, without new_decoder_architecture.");
  v("parallel_attn", parallel_attn, "Parallel attention and MLP: both have the same input.");
  v("bias", bias, "Biases on every projection.");
}

void FalconConfig::post_init() {
  fill_original_length(rope, max_position_embeddings);
  if (!num_kv_heads) num_kv_heads = num_attention_heads;
  num_key_value_heads = new_decoder_architecture ? *num_kv_heads : multi_query ? 1 : num_attention_heads;
  if (intermediate_size == 0) intermediate_size = 4 * hidden_size;
  attention_bias = mlp_bias = bias;
}

void FalconConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("num_kv_heads", num_kv_heads, 1);
  check.between_zero_and_one("hidden_dropout", hidden_dropout);
  const int64_t norms = num_ln_in_parallel_attn.value_or(1);
  require<ConfigError>(norms == 1 || (norms == 2 && new_decoder_architecture),
                       "[FalconConfig] num_ln_in_parallel_attn must be 1, or 2 with new_decoder_architecture; got ",
                       norms, ".");
  require<ConfigError>(parallel_attn || !new_decoder_architecture,
                       "[FalconConfig] parallel_attn must be true with new_decoder_architecture; got false.");
}

// Older files say n_embed, and null for a width of the MLP of 4 * hidden_size.
void FalconConfig::rename_older_keys(Json& given, bool) const {
  if (!given.is_object()) return;
  if (const Json* width = given.find("ffn_hidden_size"); width && width->is_null())
    given.as_object().erase("ffn_hidden_size");
  const Json* older = given.find("n_embed");
  if (!older) return;
  if (!older->is_null()) given["hidden_size"] = *older;
  given.as_object().erase("n_embed");
}

PartitionRules FalconConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  const bool in_groups = new_decoder_architecture && key_value_heads() != num_attention_heads;
  const LogicalAxis heads = in_groups ? LogicalAxis::KvHead : LogicalAxis::Head;
  return rules_behind({{"word_embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
                       {"self_attention\\.query_key_value\\.weight$", specs.split_first(heads)},
                       {"self_attention\\.query_key_value\\.bias$", specs.bias(heads)},
                       {"self_attention\\.dense\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"mlp\\.dense_h_to_4h\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.dense_h_to_4h\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.dense_4h_to_h\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
