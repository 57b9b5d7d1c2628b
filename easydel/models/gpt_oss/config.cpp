#include "easydel/models/gpt_oss/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

GptOssConfig::GptOssConfig() {
  vocab_size = 201088;
  hidden_size = 2880;
  intermediate_size = 2880;
  num_hidden_layers = 36;
  num_attention_heads = 64;
  num_key_value_heads = 8;
  head_dim = 64;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1e-5;
  attention_bias = true;
  sliding_window = 128;
  num_local_experts = 128;
  num_experts_per_tok = 4;
  rope.rope_type = "yarn";
  rope.rope_theta = 150000.0;
  rope.factor = 32.0;
  rope.beta_fast = 32.0;
  rope.beta_slow = 1.0;
  rope.truncate = false;
  rope.original_max_position_embeddings = 4096;
}

void GptOssConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  window_fields(v);
  expert_fields(v);
  v("swiglu_alpha", swiglu_alpha, "Inside the sigmoid of the experts' gate.");
  v("swiglu_limit", swiglu_limit, "Where gate and up are clamped.");
}

void GptOssConfig::post_init() {
  MoeConfig::post_init();
  head_dim = head_size();
  alternate_layers(2);
}

void GptOssConfig::validate() const {
  MoeConfig::validate();
  ConfigCheck(*this).above_zero("swiglu_limit", swiglu_limit);
}

PartitionRules GptOssConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"self_attn\\.sinks$", specs.bias(LogicalAxis::Head)},
                       // Experts are stacked: [expert, in, out].
                       {"experts\\.gate_up_proj$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
                       {"experts\\.down_proj$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.router\\.weight$", specs.shard_second()}},
                      fully_sharded);
}

}  // namespace easydel
