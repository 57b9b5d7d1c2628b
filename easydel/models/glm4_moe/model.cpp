// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/glm4_moe/model.h"

namespace easydel {
namespace {

AttentionSpec attention_of(const Glm4MoeConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.out_bias = false;
  if (c.use_qk_norm) spec.qk_norm = HeadNormSpec{.norm = {.eps = c.norm_eps}};
  return spec;
}

std::variant<MoeSpec, MlpSpec> mlp_of(const Glm4MoeConfig& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) return block_spec(c, layer_idx).mlp;
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.num_local_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.num_experts_per_tok,
                            .scoring = operations::RouterScoring::Sigmoid,
                            .renormalize = c.norm_topk_prob,
                            .scale = c.routed_scaling_factor,
                            .groups = c.n_group,
                            .top_groups = c.topk_group,
                            .group_best = 2},
                 .router_in_float32 = true,
                 .selection_bias = true,
                 .shared_intermediate = c.moe_intermediate_size * c.n_shared_experts};
}

}  // namespace

Glm4MoeDecoderLayer::Glm4MoeDecoderLayer(const Glm4MoeConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx), .mlp = mlp_of(c, layer_idx), .norm_eps = c.norm_eps}) {}

}  // namespace easydel
