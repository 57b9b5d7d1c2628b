#include "easydel/models/gptj/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

GPTJConfig::GPTJConfig() {
  hidden_size_key_ = "n_embd";
  intermediate_size_key_ = nullptr;
  layers_key_ = "n_layer";
  heads_key_ = "n_head";
  has_kv_heads_ = false;
  positions_key_ = "n_positions";
  hidden_act_key_ = "activation_function";
  norm_eps_key_ = "layer_norm_epsilon";
  attention_dropout_key_ = "attn_pdrop";
  vocab_size = 50400;
  hidden_size = 4096;
  intermediate_size = 4 * 4096;
  num_hidden_layers = 28;
  num_attention_heads = 16;
  hidden_act = "gelu_new";
  max_position_embeddings = 2048;
  norm_eps = 1e-5;
  bos_token_id = 50256;
  eos_token_id = 50256;
  mlp_bias = true;
}

void GPTJConfig::fields(FieldVisitor& v) {
  common_fields(v);
  v("rotary_dim", rotary_dim, "How many features of a head are rotated.");
  v("n_inner", n_inner, "Width of the MLP; null: 4 * n_embd.");
  v("resid_pdrop", resid_pdrop, "Dropout probability of the outputs of attention and MLP.");
  v("embd_pdrop", embd_pdrop, "Dropout probability of the embeddings.");
}

void GPTJConfig::post_init() { intermediate_size = n_inner.value_or(4 * hidden_size); }

void GPTJConfig::validate() const {
  DecoderConfig::validate();
  const ConfigCheck check(*this);
  check.between_zero_and_one("resid_pdrop", resid_pdrop);
  check.between_zero_and_one("embd_pdrop", embd_pdrop);
  require<ConfigError>(rotary_dim >= 2 && rotary_dim % 2 == 0 && rotary_dim <= head_size(),
                       "[GPTJConfig] rotary_dim must be even, from 2 to the size of a head, ", head_size(), "; got ",
                       rotary_dim, ".");
}

PartitionRules GPTJConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  return rules_behind({{"wte\\.weight$", specs.split_first(LogicalAxis::Vocab)},
                       {"attn\\.[qkv]_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
                       {"attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
                       {"mlp\\.fc_in\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.fc_in\\.bias$", specs.bias(LogicalAxis::MlpIntermediate)},
                       {"mlp\\.fc_out\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}},
                      fully_sharded);
}

}  // namespace easydel
