#include "easydel/models/phi/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

PhiConfig::PhiConfig() {
  norm_eps_key_ = "layer_norm_eps";
  vocab_size = 51200;
  hidden_size = 2048;
  intermediate_size = 8192;
  num_hidden_layers = 24;
  num_attention_heads = 32;
  hidden_act = "gelu_new";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  attention_bias = mlp_bias = true;
  rope.partial_rotary_factor = 0.5;
}

void PhiConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("resid_pdrop", resid_pdrop, "Dropout probability of the outputs of attention and MLP.");
  v("embd_pdrop", embd_pdrop, "Dropout probability of the embeddings.");
  v("qk_layernorm", qk_layernorm, "Norms on the heads of queries and keys.");
}

void PhiConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.between_zero_and_one("resid_pdrop", resid_pdrop);
  check.between_zero_and_one("embd_pdrop", embd_pdrop);
}

void PhiConfig::rename_older_keys(Json& given, bool is_whole) const { fill_partial_rotary(given, is_whole, 0.5); }

PartitionRules PhiConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"self_attn\\.dense\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"mlp\\.fc1\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.fc1\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.fc2\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
