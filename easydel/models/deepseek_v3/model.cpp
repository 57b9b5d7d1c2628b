#include "easydel/models/deepseek_v3/model.h"

#include "easydel/core/error.h"
#include "easydel/infra/config_check.h"

namespace easydel {
namespace {

std::variant<MoeSpec, MlpSpec> mlp_of(const DeepseekV3Config& c, int64_t layer_idx) {
  if (layer_idx < c.first_k_dense_replace.value_or(0)) {
    return MlpSpec{.hidden_size = c.hidden_size,
                   .intermediate_size = c.intermediate_size,
                   .act = c.hidden_act,
                   .init_stddev = c.initializer_range};
  }
  require<ConfigError>(c.num_experts_per_tok.has_value(),
                       "[DeepseekV3Config] num_experts_per_tok must be given where layers have experts; got null.");
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.n_routed_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = *c.num_experts_per_tok,
                            .scoring = operations::RouterScoring::Sigmoid,
                            .renormalize = c.norm_topk_prob.value_or(false),
                            .scale = c.routed_scaling_factor,
                            .groups = c.n_group.value_or(1),
                            .top_groups = c.topk_group.value_or(1),
                            .group_best = 2},
                 .router_in_float32 = true,
                 .selection_bias = true,
                 .shared_intermediate = c.moe_intermediate_size * c.n_shared_experts};
}

}  // namespace

DeepseekV3DecoderLayer::DeepseekV3DecoderLayer(const DeepseekV3Config& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = {.hidden_size = c.hidden_size,
                                     .num_heads = c.num_attention_heads,
                                     .q_lora_rank = c.q_lora_rank,
                                     .kv_lora_rank = c.kv_lora_rank,
                                     .nope_head_dim = c.qk_nope_head_dim,
                                     .rope_head_dim = c.qk_rope_head_dim,
                                     .v_head_dim = c.v_head_dim,
                                     .layer_idx = layer_idx,
                                     .bias = c.attention_bias,
                                     .rope_style = c.rope_interleave.value_or(true) ? operations::RopeStyle::Interleaved
                                                                                    : operations::RopeStyle::Half,
                                     .scale = latent_attention_scale(c.qk_nope_head_dim + c.qk_rope_head_dim, c.rope),
                                     .dropout = c.attention_dropout.value_or(0),
                                     .init_stddev = c.initializer_range},
                       .mlp = mlp_of(c, layer_idx),
                       .norm_eps = c.rms_norm_eps}) {}

DeepseekV3Model::DeepseekV3Model(const DeepseekV3Config& config) : DecoderModel(config) {
  refuse_quantized(config, "fp8");
}

// transformers gives the logits, and has no balancing loss.
RouterBalance DeepseekV3ForCausalLM::router_balance() const {
  const auto& c = static_cast<const DeepseekV3Config&>(config());
  return {.top_k = c.num_experts_per_tok.value_or(0), .coefficient = 0, .output_router_logits = c.output_router_logits};
}

}  // namespace easydel
