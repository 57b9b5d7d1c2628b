#include "easydel/models/kimi_linear/config.h"

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {
namespace {

constexpr int64_t kFullEvery = 4;  // layers from one with full attention to the next
constexpr int64_t kMaxLayers = 1 << 20;

// What the published files call the sizes of the delta rule.
constexpr std::pair<const char*, const char*> kLinearKeys[] = {{"head_dim", "linear_head_dim"},
                                                               {"num_heads", "linear_num_heads"},
                                                               {"short_conv_kernel_size", "linear_conv_kernel_dim"}};

bool says(const Json& object, const char* key) { return object.find(key) && !object.at(key).is_null(); }

// linear_attention or full_attention for each layer, from two lists that count from one.
Json types_listed(const Json& block, int64_t layers) {
  std::vector<std::string> types(static_cast<std::size_t>(layers));
  const auto fill = [&](const char* key, std::string_view type) {
    std::vector<int64_t> listed;
    FieldType<std::vector<int64_t>>::from_json(block.at(key), listed,
                                               concat("[KimiLinearConfig] linear_attn_config.", key));
    for (const int64_t layer : listed) {
      require<ConfigError>(layer >= 1 && layer <= layers, "[KimiLinearConfig] linear_attn_config.", key,
                           " counts layers from 1 to num_hidden_layers; got ", layer, " of ", layers, ".");
      types[static_cast<std::size_t>(layer - 1)] = type;
    }
  };
  fill("full_attn_layers", DecoderConfig::kFull);
  fill("kda_layers", KimiLinearConfig::kLinear);
  return FieldType<std::vector<std::string>>::to_json(types);
}

}  // namespace

KimiLinearConfig::KimiLinearConfig() {
  positions_key_ = "model_max_length";
  vocab_size = 163840;
  hidden_size = 2304;
  intermediate_size = 9216;
  num_hidden_layers = 27;
  num_attention_heads = 32;
  num_key_value_heads = 32;
  max_position_embeddings = 1048576;
  norm_eps = 1e-5;
  hidden_act = "silu";
  pad_token_id = 163839;
  bos_token_id = 163584;
  eos_token_id = 163586;
  q_lora_rank.reset();
  n_routed_experts = 256;
  n_shared_experts = 1;
  moe_intermediate_size = 1024;
  num_experts_per_tok = 8;
  norm_topk_prob = true;
  routed_scaling_factor = 2.446;
  n_group = 1;
  topk_group = 1;
}

void KimiLinearConfig::fields(FieldVisitor& v) {
  common_fields(v);
  bias_field(v);
  v("pretraining_tp", pretraining_tp, "Kept as it is.");
  v("head_dim", head_dim, "What heads of k share: qk_rope_head_dim.");
  v("kv_lora_rank", kv_lora_rank, "Rank of the latent of keys and values.");
  v("q_lora_rank", q_lora_rank, "Rank of the latent of queries; null: none.");
  v("qk_nope_head_dim", qk_nope_head_dim, "Size of a head of q and k of which each head has its own.");
  v("qk_rope_head_dim", qk_rope_head_dim, "Size of the part of k that heads share; nothing is rotated.");
  v("qk_head_dim", qk_head_dim, "The sum of the two.");
  v("v_head_dim", v_head_dim, "Size of a head of v.");
  v("layer_types", mixer_types, "linear_attention or full_attention, for each layer.");
  v("linear_head_dim", linear_head_dim, "Size of a head of linear attention.");
  v("linear_num_heads", linear_num_heads, "Heads of linear attention.");
  v("linear_conv_kernel_dim", linear_conv_kernel_dim, "Kernel size of the convolution of linear attention.");
  v("mlp_layer_types", mlp_layer_types, "dense or sparse, for each layer: an MLP or experts.");
  v("moe_intermediate_size", moe_intermediate_size, "Width of each expert.");
  v("num_experts", n_routed_experts, "Routed experts.", {"num_local_experts"});
  v("num_shared_experts", n_shared_experts, "Shared experts, which all tokens go through, as one MLP.",
    {"n_shared_experts"});
  v("num_experts_per_token", num_experts_per_tok, "Experts per token.", {"num_experts_per_tok"});
  v("moe_renormalize", norm_topk_prob, "Normalize the weights of a token's experts to sum to one.", {"norm_topk_prob"});
  v("routed_scaling_factor", routed_scaling_factor, "Factor of the experts' weights, after normalization.");
  v("num_expert_group", n_group, "Groups of experts.", {"n_group"});
  v("topk_group", topk_group, "Groups that a token's experts come from.");
  v("output_router_logits", output_router_logits, "Return router logits.");
}

void KimiLinearConfig::post_init() {
  LatentMoeConfig::post_init();
  if (num_hidden_layers < 0 || num_hidden_layers > kMaxLayers) return;  // validate() says so
  const auto fill = [&](auto& types, const auto& type_of) {
    if (types) return;
    types.emplace();
    for (int64_t i = 0; i < num_hidden_layers; ++i) types->emplace_back(type_of(i));
  };
  fill(mixer_types, [](int64_t i) { return i > 0 && i % kFullEvery == 0 ? kFull : kLinear; });
  fill(mlp_layer_types, [](int64_t i) { return i == 0 ? kDense : kSparse; });
}

void KimiLinearConfig::validate() const {
  LatentMoeConfig::validate();
  check_groups();
  const ConfigCheck check(*this);
  check.at_least("linear_head_dim", linear_head_dim, 1);
  check.at_least("linear_num_heads", linear_num_heads, 1);
  check.at_least("linear_conv_kernel_dim", linear_conv_kernel_dim, 1);
  require<ConfigError>(n_routed_experts / n_group.value_or(1) >= 2,
                       "[KimiLinearConfig] num_experts must be at least 2 for each num_expert_group; got ",
                       n_routed_experts, " and ", n_group.value_or(1), ".");
  const auto check_types = [&](const char* key, const auto& types, std::string_view first, std::string_view second) {
    const auto count = static_cast<int64_t>(types ? types->size() : 0);
    require<ConfigError>(count == num_hidden_layers, "[KimiLinearConfig] ", key,
                         " must have one entry for each of num_hidden_layers; got ", count, " and ", num_hidden_layers,
                         ".");
    for (const std::string& type : *types) check.one_of(key, type, {std::string(first), std::string(second)});
  };
  check_types("layer_types", mixer_types, kFull, kLinear);
  check_types("mlp_layer_types", mlp_layer_types, kDense, kSparse);
}

// The published files have linear_attn_config and first_k_dense_replace.
void KimiLinearConfig::rename_older_keys(Json& given, bool is_whole) const {
  LatentMoeConfig::rename_older_keys(given, is_whole);
  if (!given.is_object()) return;
  int64_t layers = num_hidden_layers;
  if (const Json* count = given.find("num_hidden_layers"); count && count->is_int()) layers = count->as_int();
  if (layers < 0 || layers > kMaxLayers) return;  // validate() says so
  const Json block = says(given, "linear_attn_config") ? given.at("linear_attn_config") : Json();
  require<ConfigError>(block.is_null() || block.is_object(),
                       "[KimiLinearConfig] linear_attn_config must be an object; got ", block.dump(), ".");
  if (block.is_object()) {
    for (const auto& [older, key] : kLinearKeys) {
      if (!says(block, older)) continue;
      require<ConfigError>(!says(given, key) || given.at(key) == block.at(older), "[KimiLinearConfig] ", key,
                           " and linear_attn_config.", older, " must be the same; got ",
                           says(given, key) ? given.at(key).dump() : "", " and ", block.at(older).dump(), ".");
      given[key] = block.at(older);
    }
    if (!says(given, "layer_types") && says(block, "full_attn_layers") && says(block, "kda_layers"))
      given["layer_types"] = types_listed(block, layers);
  }
  const Json* first = given.find("first_k_dense_replace");
  if (!first || !first->is_int() || says(given, "mlp_layer_types")) return;
  const int64_t dense = first->as_int();
  std::vector<std::string> types;
  for (int64_t i = 0; i < layers; ++i) types.emplace_back(i < dense ? kDense : kSparse);
  given["mlp_layer_types"] = FieldType<std::vector<std::string>>::to_json(types);
}

PartitionRules KimiLinearConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  std::vector<PartitionRule> rules = {
      {"self_attn\\.(q|k|v|f_b|g_b|b)_proj\\.weight$", specs.split_first(LogicalAxis::Head)},
      {"self_attn\\.(f_a|g_a)_proj\\.weight$", specs.shard_second()},
      {"self_attn\\.dt_bias$", specs.bias(LogicalAxis::Head)},
      {"block_sparse_moe\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"block_sparse_moe\\.shared_experts\\.(gate|up)_proj\\.weight$", specs.split_first(LogicalAxis::MlpIntermediate)},
      {"block_sparse_moe\\.(shared_experts\\.)?down_proj\\.weight$", specs.split_second(LogicalAxis::MlpIntermediate)}};
  const PartitionRules common = LatentMoeConfig::get_partition_rules(fully_sharded);
  rules.insert(rules.end(), common.rules().begin(), common.rules().end());
  return PartitionRules(std::move(rules));
}

}  // namespace easydel
