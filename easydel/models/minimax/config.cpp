#include "easydel/models/minimax/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

MiniMaxConfig::MiniMaxConfig() {
  vocab_size = 32000;
  hidden_size = 4096;
  intermediate_size = 14336;
  num_hidden_layers = 32;
  num_attention_heads = 32;
  num_key_value_heads = 8;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  rope.rope_theta = 1e6;
}

void MiniMaxConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  expert_fields(v);
  v("sliding_window", sliding_window, "Sliding window size; null: no window.");
  v("router_jitter_noise", router_jitter_noise, "Noise on the router's input in training.");
  v("layer_types", mixer_types, "linear_attention or full_attention, for each layer.");
  v("block_size", block_size, "Tokens of lightning attention that are computed together.");
  v("full_attn_alpha_factor", full_attn_alpha_factor, "Factor of the residual stream next to attention.");
  v("full_attn_beta_factor", full_attn_beta_factor, "Factor of what attention adds.");
  v("linear_attn_alpha_factor", linear_attn_alpha_factor, "Factor of the residual stream next to lightning attention.");
  v("linear_attn_beta_factor", linear_attn_beta_factor, "Factor of what lightning attention adds.");
  v("mlp_alpha_factor", mlp_alpha_factor, "Factor of the residual stream next to the experts.");
  v("mlp_beta_factor", mlp_beta_factor, "Factor of what the experts add.");
}

void MiniMaxConfig::post_init() {
  MoeConfig::post_init();
  if (mixer_types || num_hidden_layers < 0 || num_hidden_layers > (1 << 20)) return;
  mixer_types.emplace();
  for (int64_t i = 0; i < num_hidden_layers; ++i) mixer_types->emplace_back(i % 2 ? kLinear : kFull);
}

void MiniMaxConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("block_size", block_size, 1);
  check.between_zero_and_one("router_jitter_noise", router_jitter_noise);
  const auto count = static_cast<int64_t>(mixer_types ? mixer_types->size() : 0);
  require<ConfigError>(count == num_hidden_layers,
                       "[MiniMaxConfig] layer_types must have one entry for each of num_hidden_layers; got ", count,
                       " and ", num_hidden_layers, ".");
  for (const std::string& type : *mixer_types)
    check.one_of("layer_types", type, {std::string(kFull), std::string(kLinear)});
}

PartitionRules MiniMaxConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  std::vector<PartitionRule> rules = {
      {"self_attn\\.(qkv_proj|out_proj|output_gate)\\.weight$", specs.shard_second()},
      {"(^|\\.)experts\\.(gate_up_proj)(\\.weight)?$", specs.experts_split_first(LogicalAxis::MlpIntermediate)},
      {"(^|\\.)experts\\.(down_proj)(\\.weight)?$", specs.experts_split_second(LogicalAxis::MlpIntermediate)},
      {"block_sparse_moe\\.gate\\.weight$", specs.shard_second()}};
  return rules_behind(std::move(rules), fully_sharded);
}

}  // namespace easydel
