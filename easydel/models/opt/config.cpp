#include "easydel/models/opt/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

OPTConfig::OPTConfig() {
  intermediate_size_key_ = nullptr;  // ffn_dim, which has no other name
  has_kv_heads_ = false;
  hidden_act_key_ = "activation_function";
  norm_eps_key_ = nullptr;
  initializer_key_ = "init_std";
  vocab_size = 50272;
  hidden_size = 768;
  intermediate_size = 3072;
  num_hidden_layers = 12;
  num_attention_heads = 12;
  hidden_act = "relu";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  pad_token_id = 1;
  bos_token_id = 2;
  eos_token_id = 2;
  tie_word_embeddings = true;
}

void OPTConfig::fields(FieldVisitor& v) {
  common_fields(v);
  v("ffn_dim", intermediate_size, "Width of the MLP.");
  v("do_layer_norm_before", do_layer_norm_before,
    "Pre-norm: norms before attention and MLP instead of after their residual sums.");
  v("_remove_final_layer_norm", remove_final_layer_norm, "No norm after the last layer.");
  v("word_embed_proj_dim", word_embed_proj_dim, "Width of the embeddings; null: hidden_size.");
  v("dropout", dropout, "Dropout probability of the outputs of attention and MLP.");
  v("layerdrop", layerdrop, "Kept for transformers: must be 0.");
  v("enable_bias", enable_bias, "Biases on every projection.");
  v("layer_norm_elementwise_affine", layer_norm_elementwise_affine, "Norms have weights.");
}

void OPTConfig::post_init() {
  if (!word_embed_proj_dim) word_embed_proj_dim = hidden_size;
  attention_bias = mlp_bias = enable_bias;
}

void OPTConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("word_embed_proj_dim", word_embed_proj_dim, 1);
  check.between_zero_and_one("dropout", dropout);
  require<NotSupportedError>(layerdrop == 0, "[OPTConfig] layerdrop must be 0; got ", layerdrop, ".");
}

PartitionRules OPTConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"embed_positions\\.weight$", specs.shard_second()},
                       {"self_attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"fc1\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"fc1\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"fc2\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
