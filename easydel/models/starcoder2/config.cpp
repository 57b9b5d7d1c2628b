#include "easydel/models/starcoder2/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

Starcoder2Config::Starcoder2Config() {
  norm_eps_key_ = "norm_epsilon";
  vocab_size = 49152;
  hidden_size = 3072;
  intermediate_size = 12288;
  num_hidden_layers = 30;
  num_attention_heads = 24;
  num_key_value_heads = 2;
  hidden_act = "gelu_pytorch_tanh";
  max_position_embeddings = 4096;
  initializer_range = 0.018042;
  norm_eps = 1e-5;
  bos_token_id = 50256;
  eos_token_id = 50256;
  tie_word_embeddings = true;
}

void Starcoder2Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
  v("residual_dropout", residual_dropout, "Dropout probability of the outputs of attention and MLP.");
  v("embedding_dropout", embedding_dropout, "Dropout probability of the embeddings.");
  v("use_bias", use_bias, "Biases on every projection.");
  v.only_when_changed();
  head_dim_field(v);
}

void Starcoder2Config::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.between_zero_and_one("residual_dropout", residual_dropout);
  check.between_zero_and_one("embedding_dropout", embedding_dropout);
}

PartitionRules Starcoder2Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"mlp\\.c_fc\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.c_fc\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.c_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
