#include "easydel/models/internlm2/config.h"

#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

InternLM2Config::InternLM2Config() {
  attention_dropout_key_ = nullptr;
  vocab_size = 103168;
  hidden_size = 4096;
  intermediate_size = 11008;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  hidden_act = "silu";
  max_position_embeddings = 2048;
  pad_token_id = 0;
  bos_token_id = 1;
  eos_token_id = 2;
}

void InternLM2Config::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  v("bias", bias, "Biases on the attention's projections.");
  v("pretraining_tp", pretraining_tp, "Kept for its own code.");
}

void InternLM2Config::post_init() {
  DecoderConfig::post_init();
  attention_bias = bias;
}

PartitionRules InternLM2Config::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  const LogicalAxis heads = key_value_heads() == num_attention_heads ? LogicalAxis::Head : LogicalAxis::KvHead;
  return rules_behind({{"tok_embeddings\\.weight$", specs.split_first(LogicalAxis::Vocab)},
                       {"attention\\.wqkv\\.weight$", specs.split_first(heads)},
                       {"attention\\.wqkv\\.bias$", specs.bias(heads)},
                       {"attention\\.wo\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"feed_forward\\.w[13]\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"feed_forward\\.w2\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
