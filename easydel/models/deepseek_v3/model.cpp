// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/deepseek_v3/model.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {
namespace {

LatentAttentionSpec attention_of(const DeepseekV3Config& c, int64_t layer_idx) {
  LatentAttentionSpec spec = latent_attention_spec(c, layer_idx);
  if (!c.rope_interleave.value_or(true)) spec.rope_style = operations::RopeStyle::Half;
  return spec;
}

std::variant<MoeSpec, MlpSpec> mlp_of(const DeepseekV3Config& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) return block_spec(c, layer_idx).mlp;
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.n_routed_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.top_k(),
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
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx), .mlp = mlp_of(c, layer_idx), .norm_eps = c.norm_eps}) {}

DeepseekV3Model::DeepseekV3Model(const DeepseekV3Config& config) : DecoderModel(config) {}

}  // namespace easydel
