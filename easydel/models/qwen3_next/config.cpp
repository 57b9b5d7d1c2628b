#include "easydel/models/qwen3_next/config.h"

#include <algorithm>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

constexpr int64_t kInterval = 4;
constexpr double kRotated = 0.25;

std::vector<std::string> every_so_many(int64_t layers, int64_t interval) {
  std::vector<std::string> types;
  for (int64_t i = 0; i < layers; ++i)
    types.emplace_back((i + 1) % interval ? LinearAttentionKeys::kLinear : DecoderConfig::kFull);
  return types;
}

bool is_given(const Json& object, const char* key) { return object.find(key) && !object.at(key).is_null(); }

}  // namespace

void LinearAttentionKeys::fields(FieldVisitor& v) {
  v("linear_conv_kernel_dim", conv_kernel_dim, "Kernel size of the convolution of linear attention.");
  v("linear_key_head_dim", key_head_dim, "Size of a key of linear attention.");
  v("linear_value_head_dim", value_head_dim, "Size of a value of linear attention.");
  v("linear_num_key_heads", num_key_heads, "Key heads of linear attention.");
  v("linear_num_value_heads", num_value_heads, "Value heads of linear attention.");
  v("layer_types", layer_types, "linear_attention or full_attention, for each layer.");
}

void LinearAttentionKeys::post_init(int64_t layers) {
  if (!layer_types) layer_types = every_so_many(layers, kInterval);
}

void LinearAttentionKeys::validate(const BaseConfig& config) const {
  const ConfigCheck check(config);
  check.at_least("linear_conv_kernel_dim", conv_kernel_dim, 1);
  check.at_least("linear_key_head_dim", key_head_dim, 1);
  check.at_least("linear_value_head_dim", value_head_dim, 1);
  check.at_least("linear_num_key_heads", num_key_heads, 1);
  check.at_least("linear_num_value_heads", num_value_heads, 1);
  check.multiple("linear_num_value_heads", num_value_heads, "linear_num_key_heads", num_key_heads);
  const std::vector<std::string> types = layer_types.value_or(std::vector<std::string>());
  const auto count = static_cast<int64_t>(types.size());
  require<ConfigError>(count == config.num_hidden_layers, "[", config.class_name(),
                       "] layer_types must have one entry for each of num_hidden_layers; got ", count, " and ",
                       config.num_hidden_layers, ".");
  for (const std::string& type : types)
    check.one_of("layer_types", type, {std::string(DecoderConfig::kFull), std::string(kLinear)});
}

PartitionRules LinearAttentionKeys::rules(const PartitionRules& common, const ShardingSettings& sharding,
                                          bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  std::vector<PartitionRule> rules = {
      {"linear_attn\\.in_proj_(qkvz|ba)\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"linear_attn\\.(A_log|dt_bias)$", specs.bias(LogicalAxis::Head)},
      {"linear_attn\\.out_proj\\.weight$", specs.split_second(LogicalAxis::Head)},
      {"linear_attn\\.in_proj_\\w+\\.weight$", specs.shard_second()},
      {"mlp\\.shared_expert\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"mlp\\.shared_expert\\.down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)},
      {"mlp\\.shared_expert_gate\\.weight$", specs.shard_second()}};
  rules.insert(rules.end(), common.rules().begin(), common.rules().end());
  return PartitionRules(std::move(rules));
}

void LinearAttentionKeys::rename_older_keys(Json& given, bool is_whole, int64_t layers) {
  if (!given.is_object()) return;
  const Json* interval = given.find("full_attention_interval");
  if (is_whole && interval && interval->is_int() && interval->as_int() > 0 && !is_given(given, "layer_types")) {
    const Json* count = given.find("num_hidden_layers");
    if (count && count->is_int()) layers = count->as_int();
    if (layers >= 0 && layers <= 10'000)
      given["layer_types"] = FieldType<std::vector<std::string>>::to_json(every_so_many(layers, interval->as_int()));
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!is_given(given, key) || !given.at(key).is_object()) continue;
    if (!given.at(key).contains("partial_rotary_factor") && !is_given(given, "partial_rotary_factor"))
      given[key]["partial_rotary_factor"] = kRotated;
  }
  if (is_whole && given.contains("rope_theta") && !is_given(given, "rope_scaling") &&
      !is_given(given, "rope_parameters") && !is_given(given, "partial_rotary_factor"))
    given["rope_parameters"] = Json::object({{"partial_rotary_factor", kRotated}});
}

Qwen3NextConfig::Qwen3NextConfig() {
  vocab_size = 151936;
  hidden_size = 2048;
  intermediate_size = 5632;
  num_hidden_layers = 48;
  num_attention_heads = 16;
  num_key_value_heads = 2;
  head_dim = 256;
  hidden_act = "silu";
  max_position_embeddings = 32768;
  rope.partial_rotary_factor = kRotated;
  num_local_experts = 512;
  num_experts_per_tok = 10;
  least_experts_ = 0;
}

void Qwen3NextConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  linear.fields(v);
  v("num_experts", num_local_experts, "Experts per MoE layer.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts per token.");
  v("output_router_logits", output_router_logits, "Return router logits, and add the balancing loss.");
  v("router_aux_loss_coef", router_aux_loss_coef, "Weight of the balancing loss.");
  v("decoder_sparse_step", decoder_sparse_step, "Every n-th layer has experts.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("shared_expert_intermediate_size", shared_expert_intermediate_size, "Width of the expert that all tokens share.");
  v("norm_topk_prob", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.");
  v("mlp_only_layers", mlp_only_layers, "Layers without experts, regardless of decoder_sparse_step.");
}

void Qwen3NextConfig::post_init() {
  MoeConfig::post_init();
  linear.post_init(num_hidden_layers);
  if (!mlp_only_layers) mlp_only_layers.emplace();
}

bool Qwen3NextConfig::has_experts(int64_t layer) const {
  if (num_local_experts == 0 || (layer + 1) % decoder_sparse_step != 0) return false;
  return !mlp_only_layers ||
         std::find(mlp_only_layers->begin(), mlp_only_layers->end(), layer) == mlp_only_layers->end();
}

void Qwen3NextConfig::validate() const {
  MoeConfig::validate();
  linear.validate(*this);
  const ConfigCheck check(*this);
  check.at_least("moe_intermediate_size", moe_intermediate_size, 1);
  check.at_least("shared_expert_intermediate_size", shared_expert_intermediate_size, 1);
  check.at_least("decoder_sparse_step", decoder_sparse_step, 1);
}

void Qwen3NextConfig::rename_older_keys(Json& given, bool is_whole) const {
  LinearAttentionKeys::rename_older_keys(given, is_whole, num_hidden_layers);
}

PartitionRules Qwen3NextConfig::get_partition_rules(bool fully_sharded) const {
  return linear.rules(MoeConfig::get_partition_rules(fully_sharded), sharding, fully_sharded);
}

}  // namespace easydel
