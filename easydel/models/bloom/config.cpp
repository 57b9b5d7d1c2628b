#include "easydel/models/bloom/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

BloomConfig::BloomConfig() {
  intermediate_size_key_ = nullptr;
  layers_key_ = "n_layer";
  heads_key_ = "n_head";
  has_kv_heads_ = false;
  positions_key_ = nullptr;
  hidden_act_key_ = nullptr;
  norm_eps_key_ = "layer_norm_epsilon";
  vocab_size = 250880;
  hidden_size = 64;
  intermediate_size = 4 * 64;
  num_hidden_layers = 2;
  num_attention_heads = 8;
  hidden_act = "gelu_pytorch_tanh";
  max_position_embeddings = 2048;  // what the published ones were trained with
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  tie_word_embeddings = true;
  attention_bias = mlp_bias = true;
}

void BloomConfig::fields(FieldVisitor& v) {
  common_fields(v);
  v("apply_residual_connection_post_layernorm", apply_residual_connection_post_layernorm,
    "The residual stream goes through the norms.");
  v("hidden_dropout", hidden_dropout, "Dropout probability of the outputs of attention and MLP.");
  v("pretraining_tp", pretraining_tp, "Kept for transformers.");
  v("slow_but_exact", slow_but_exact, "Kept for transformers: the order of its sums.");
}

void BloomConfig::post_init() { intermediate_size = 4 * hidden_size; }

void BloomConfig::validate() const {
  DecoderConfig::validate();
  ConfigCheck(*this).between_zero_and_one("hidden_dropout", hidden_dropout);
}

void BloomConfig::rename_older_keys(Json& given, bool) const {
  const Json* older = given.is_object() ? given.find("n_embed") : nullptr;
  if (!older) return;
  if (!older->is_null()) given["hidden_size"] = *older;
  given.as_object().erase("n_embed");
}

PartitionRules BloomConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"word_embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
                       {"self_attention\\.query_key_value\\.weight$", specs.split_first(LogicalAxis::Head)},
                       {"self_attention\\.query_key_value\\.bias$", specs.bias(LogicalAxis::Head)},
                       {"self_attention\\.dense\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"mlp\\.dense_h_to_4h\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.dense_h_to_4h\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.dense_4h_to_h\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
