// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/llama4/model.h"

namespace easydel {
namespace {

AttentionSpec attention_of(const Llama4TextConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.chunk = c.chunk_of(layer_idx);
  if (c.has_rope(layer_idx)) {
    spec.rope_style = operations::RopeStyle::Interleaved;
    spec.norm_after_rope = true;
    if (c.use_qk_norm) spec.qk_norm = HeadNormSpec{.norm = {.eps = c.norm_eps, .weight = false}};
  } else {
    spec.rope = std::nullopt;
    if (c.attn_temperature_tuning) spec.temperature = {.scale = c.attn_scale, .period = c.floor_scale};
  }
  return spec;
}

std::variant<MoeSpec, MlpSpec> mlp_of(const Llama4TextConfig& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) {
    MlpSpec spec = block_spec(c, layer_idx).mlp;
    spec.intermediate_size = c.intermediate_size_mlp;
    return spec;
  }
  return MoeSpec{
      .experts = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .num_experts = c.num_local_experts,
                  .act = c.hidden_act,
                  .init_stddev = c.initializer_range,
                  .method = c.moe.method,
                  .transposed = true},
      .router = {.top_k = c.num_experts_per_tok, .scoring = operations::RouterScoring::Sigmoid, .renormalize = false},
      .router_name = "router",
      .shared_intermediate = c.intermediate_size,
      .shared_name = "shared_expert",
      .weigh_inputs = true};
}

}  // namespace

Llama4TextDecoderLayer::Llama4TextDecoderLayer(const Llama4TextConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx),
                       .mlp = mlp_of(c, layer_idx),
                       .norm_eps = c.norm_eps,
                       .mlp_name = "feed_forward"}) {}

}  // namespace easydel
