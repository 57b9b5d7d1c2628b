#include "easydel/models/persimmon/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

PersimmonConfig::PersimmonConfig() {
  norm_eps_key_ = "layer_norm_eps";
  has_kv_heads_ = false;
  vocab_size = 262144;
  hidden_size = 4096;
  intermediate_size = 16384;
  num_hidden_layers = 36;
  num_attention_heads = 64;
  hidden_act = "relu2";
  max_position_embeddings = 16384;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  attention_bias = mlp_bias = true;
  rope.partial_rotary_factor = 0.5;
}

void PersimmonConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("hidden_dropout", hidden_dropout, "Dropout probability of the outputs of the MLP.");
  v("qk_layernorm", qk_layernorm, "Norms on the heads of queries and keys.");
}

void PersimmonConfig::validate() const {
  DecoderConfig::validate();
  ConfigCheck(*this).between_zero_and_one("hidden_dropout", hidden_dropout);
}

void PersimmonConfig::rename_older_keys(Json& given, bool is_whole) const { fill_partial_rotary(given, is_whole, 0.5); }

PartitionRules PersimmonConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"self_attn\\.query_key_value\\.weight$", specs.split_first(LogicalAxis::Head)},
                       {"self_attn\\.query_key_value\\.bias$", specs.bias(LogicalAxis::Head)},
                       {"self_attn\\.dense\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"mlp\\.dense_h_to_4h\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.dense_h_to_4h\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.dense_4h_to_h\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
