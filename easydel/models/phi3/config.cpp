#include "easydel/models/phi3/config.h"

#include "easydel/infra/config_check.h"
#include "easydel/infra/weight_specs.h"

namespace easydel {

Phi3Config::Phi3Config() {
  vocab_size = 32064;
  hidden_size = 3072;
  intermediate_size = 8192;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 4096;
  bos_token_id = 1;
  eos_token_id = 32000;
  pad_token_id = 32000;
}

void Phi3Config::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "Tokens in the vocabulary.");
  v("hidden_size", hidden_size, "Width of the residual stream.");
  v("intermediate_size", intermediate_size, "Width of the MLP.");
  v("num_hidden_layers", num_hidden_layers, "Decoder layers.");
  v("num_attention_heads", num_attention_heads, "Query heads.");
  v("num_key_value_heads", num_key_value_heads, "Fewer than the query heads means grouped attention.");
  v("resid_pdrop", resid_pdrop, "Share of each layer's outputs that training drops.");
  v("embd_pdrop", embd_pdrop, "Share of the embeddings that training drops.");
  v("attention_dropout", attention_dropout, "Share of attention weights that training drops.");
  v("hidden_act", hidden_act, "Activation of the MLP.");
  v("max_position_embeddings", max_position_embeddings, "Longest sequence.");
  v("original_max_position_embeddings", original_max_position_embeddings, "Longest sequence of the pretraining.");
  v("initializer_range", initializer_range, "Standard deviation of new weights.");
  v("rms_norm_eps", rms_norm_eps, "Added under the root of the norms.");
  v("use_cache", use_cache, "Keep keys and values while generating.");
  v("tie_word_embeddings", tie_word_embeddings, "One matrix for embedding and output.");
  v("rope_parameters", rope, "Rotary position embeddings: default or longrope.");
  v("bos_token_id", bos_token_id, "Token that begins a text.");
  v("eos_token_id", eos_token_id, "Token or tokens that end a text.");
  v("pad_token_id", pad_token_id, "Padding token.");
  v("sliding_window", sliding_window, "Tokens that a query sees back; null: all.");
  v.only_when_changed();
  v("head_dim", head_dim, "Size of a head; null: hidden_size / num_attention_heads.");
}

void Phi3Config::post_init() {
  num_key_value_heads = key_value_heads();
  if (rope.rope_type == "su" || rope.rope_type == "yarn") rope.rope_type = "longrope";  // its older names
  if (rope.rope_type == "longrope") rope.original_max_position_embeddings = original_max_position_embeddings;
}

void Phi3Config::validate() const {
  BaseConfig::validate();
  const ConfigCheck check(*this);
  check.decoder();
  check.activation("hidden_act", hidden_act);
  check.above_zero("rms_norm_eps", rms_norm_eps);
  check.between_zero_and_one("resid_pdrop", resid_pdrop);
  check.between_zero_and_one("embd_pdrop", embd_pdrop);
  check.between_zero_and_one("attention_dropout", attention_dropout);
  check.at_least("original_max_position_embeddings", original_max_position_embeddings, 1);
  check.at_least("sliding_window", sliding_window, 1);
  require<ConfigError>(rope.rope_type == "default" || rope.rope_type == "longrope",
                       "[Phi3Config] rope_parameters.rope_type must be default or longrope; got \"", rope.rope_type,
                       "\".");
  check.rope();
}

PartitionRules Phi3Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return {
      {"embed_tokens\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"self_attn\\.qkv_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.o_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"mlp\\.gate_up_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)},
      {"score\\.weight$", specs.shard_second()},
      {".*", {}},  // norms
  };
}

}  // namespace easydel
