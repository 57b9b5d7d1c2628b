#include "easydel/models/deepseek_v2/model.h"

#include "easydel/core/error.h"

namespace easydel {
namespace {

std::variant<MoeSpec, MlpSpec> mlp_of(const DeepseekV2Config& c, int64_t layer_idx) {
  if (layer_idx < c.first_k_dense_replace) {
    return MlpSpec{.hidden_size = c.hidden_size,
                   .intermediate_size = c.intermediate_size,
                   .act = c.hidden_act,
                   .bias = c.mlp_bias,
                   .init_stddev = c.initializer_range};
  }
  const bool in_groups = c.topk_method == "group_limited_greedy";
  require<ConfigError>(c.num_experts_per_tok.has_value(),
                       "[DeepseekV2Config] num_experts_per_tok must be given where layers have experts; got null.");
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.n_routed_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = *c.num_experts_per_tok,
                            .renormalize = false,
                            .scale = c.routed_scaling_factor,
                            .groups = in_groups ? c.n_group.value_or(1) : 1,
                            .top_groups = in_groups ? c.topk_group.value_or(1) : 1},
                 .router_in_float32 = true,
                 .shared_intermediate = c.moe_intermediate_size * c.n_shared_experts,
                 .shared_bias = c.mlp_bias};
}

}  // namespace

DeepseekV2DecoderLayer::DeepseekV2DecoderLayer(const DeepseekV2Config& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = {.hidden_size = c.hidden_size,
                                     .num_heads = c.num_attention_heads,
                                     .q_lora_rank = c.q_lora_rank,
                                     .kv_lora_rank = c.kv_lora_rank,
                                     .nope_head_dim = c.qk_nope_head_dim,
                                     .rope_head_dim = c.qk_rope_head_dim,
                                     .v_head_dim = c.v_head_dim,
                                     .layer_idx = layer_idx,
                                     .bias = c.attention_bias,
                                     .scale = latent_attention_scale(c.qk_nope_head_dim + c.qk_rope_head_dim, c.rope),
                                     .dropout = c.attention_dropout.value_or(0),
                                     .init_stddev = c.initializer_range},
                       .mlp = mlp_of(c, layer_idx),
                       .norm_eps = c.rms_norm_eps}) {}

// transformers gives the logits, and has no balancing loss.
RouterBalance DeepseekV2ForCausalLM::router_balance() const {
  const auto& c = static_cast<const DeepseekV2Config&>(config());
  return {.top_k = c.num_experts_per_tok.value_or(0), .coefficient = 0, .output_router_logits = c.output_router_logits};
}

}  // namespace easydel
