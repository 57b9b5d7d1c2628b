#include "easydel/models/llama4/config.h"

#include <algorithm>

#include "easydel/infra/config/config_check.h"
#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

Llama4TextConfig::Llama4TextConfig() {
  vocab_size = 202048;
  hidden_size = 5120;
  intermediate_size = 8192;
  num_hidden_layers = 48;
  num_attention_heads = 40;
  num_key_value_heads = 8;
  head_dim = 128;
  hidden_act = "silu";
  max_position_embeddings = 131072;
  norm_eps = 1e-5;
  bos_token_id = 1;
  eos_token_id = 2;
  rope.rope_theta = 5e5;
  num_local_experts = 16;
  num_experts_per_tok = 1;
  experts_alias_ = nullptr;
}

void Llama4TextConfig::fields(FieldVisitor& v) {
  common_fields(v);
  rope_field(v);
  head_dim_field(v);
  bias_field(v);
  v("num_local_experts", num_local_experts, "Experts per MoE layer.");
  v("num_experts_per_tok", num_experts_per_tok, "Experts per token.");
  v("output_router_logits", output_router_logits, "Return router logits.");
  v("router_aux_loss_coef", router_aux_loss_coef, "Kept for transformers, which adds no balancing loss.");
  v("router_jitter_noise", router_jitter_noise, "Kept for transformers, which does not use it.");
  v("intermediate_size_mlp", intermediate_size_mlp, "Width of the MLP in layers without experts.");
  v("moe_layers", moe_layers, "The layers with experts.");
  v("interleave_moe_layer_step", interleave_moe_layer_step, "By default, every n-th layer has experts.");
  v("use_qk_norm", use_qk_norm, "Normalize q and k in layers with rotary embeddings.");
  v("no_rope_layers", no_rope_layers, "For each layer 1 where it has rotary embeddings, 0 where it has none.");
  v("no_rope_layer_interval", no_rope_layer_interval, "By default, every n-th layer has no rotary embedding.");
  v("attention_chunk_size", attention_chunk_size, "Tokens of a chunk, which sees only itself.");
  v("layer_types", attention_types, "chunked_attention or full_attention, for each layer.");
  v("attn_temperature_tuning", attn_temperature_tuning, "Scale q by its place in layers without rotary embeddings.");
  v("floor_scale", floor_scale, "Tokens after which that scale grows.");
  v("attn_scale", attn_scale, "How much it grows.");
}

void Llama4TextConfig::post_init() {
  MoeConfig::post_init();
  head_dim = head_size();
  const bool is_sane = num_hidden_layers >= 0 && num_hidden_layers <= (1 << 20) && no_rope_layer_interval >= 1 &&
                       interleave_moe_layer_step >= 1;
  if (!is_sane) return;  // validate() says so
  if (!no_rope_layers || no_rope_layers->empty()) {
    no_rope_layers.emplace();
    for (int64_t i = 0; i < num_hidden_layers; ++i) no_rope_layers->push_back((i + 1) % no_rope_layer_interval != 0);
  }
  if (!moe_layers) {
    moe_layers.emplace();
    for (int64_t i = interleave_moe_layer_step - 1; i < num_hidden_layers; i += interleave_moe_layer_step)
      moe_layers->push_back(i);
  }
  if (!attention_types) {
    attention_types.emplace();
    for (const int64_t has_rope : *no_rope_layers) attention_types->emplace_back(has_rope ? kChunked : kFull);
  }
}

bool Llama4TextConfig::has_experts(int64_t layer) const {
  return std::find(moe_layers->begin(), moe_layers->end(), layer) != moe_layers->end();
}

int64_t Llama4TextConfig::chunk_of(int64_t layer) const {
  return attention_types->at(static_cast<std::size_t>(layer)) == kChunked ? attention_chunk_size.value_or(0) : 0;
}

void Llama4TextConfig::validate() const {
  MoeConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("intermediate_size_mlp", intermediate_size_mlp, 1);
  check.at_least("interleave_moe_layer_step", interleave_moe_layer_step, 1);
  check.at_least("no_rope_layer_interval", no_rope_layer_interval, 1);
  check.at_least("attention_chunk_size", attention_chunk_size, 1);
  check.at_least("floor_scale", floor_scale, 1);
  const auto covers = [&](const char* key, std::size_t count) {
    require<ConfigError>(static_cast<int64_t>(count) >= num_hidden_layers, "[Llama4TextConfig] ", key,
                         " must have an entry for each of num_hidden_layers; got ", count, " and ", num_hidden_layers,
                         ".");
  };
  covers("no_rope_layers", no_rope_layers ? no_rope_layers->size() : 0);
  covers("layer_types", attention_types ? attention_types->size() : 0);
  for (const std::string& type : *attention_types) {
    check.one_of("layer_types", type, {std::string(kChunked), std::string(kFull)});
    require<ConfigError>(type != kChunked || attention_chunk_size,
                         "[Llama4TextConfig] attention_chunk_size must be given where layer_types has "
                         "chunked_attention; got null.");
  }
}

PartitionRules Llama4TextConfig::get_partition_rules(bool fully_sharded) const {
  const WeightSpecs specs(sharding, fully_sharded);
  constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;
  return rules_behind(
      {// Experts are stacked: [expert, in, out].
       {"experts\\.gate_up_proj$", specs.experts_split_second(kInner)},
       {"experts\\.down_proj$", specs.experts_split_first(kInner)},
       {"feed_forward\\.router\\.weight$", specs.shard_second()},
       {"feed_forward\\.(shared_expert\\.)?(gate|up)_proj\\.weight$", specs.split_first(kInner)},
       {"feed_forward\\.(shared_expert\\.)?down_proj\\.weight$", specs.split_second(kInner)}},
      fully_sharded);
}

RouterBalance Llama4TextConfig::router_balance() const {
  return {.top_k = num_experts_per_tok, .coefficient = 0, .output_router_logits = output_router_logits};
}

}  // namespace easydel
