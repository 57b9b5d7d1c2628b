// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/deepseek_v2/model.h"

namespace easydel {
namespace {

std::variant<MoeSpec, MlpSpec> mlp_of(const DeepseekV2Config& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) return block_spec(c, layer_idx).mlp;
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.n_routed_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.top_k(),
                            .renormalize = false,
                            .scale = c.routed_scaling_factor,
                            .groups = c.in_groups() ? c.n_group.value_or(1) : 1,
                            .top_groups = c.in_groups() ? c.topk_group.value_or(1) : 1},
                 .router_in_float32 = true,
                 .shared_intermediate = c.moe_intermediate_size * c.n_shared_experts,
                 .shared_bias = c.mlp_bias};
}

}  // namespace

DeepseekV2DecoderLayer::DeepseekV2DecoderLayer(const DeepseekV2Config& c, int64_t layer_idx)
    : MoeDecoderLayer(
          {.attention = latent_attention_spec(c, layer_idx), .mlp = mlp_of(c, layer_idx), .norm_eps = c.norm_eps}) {}

}  // namespace easydel
