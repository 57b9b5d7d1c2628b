// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/ernie4_5_moe/model.h"

namespace easydel {
namespace {

AttentionSpec attention_of(const Ernie4_5_MoeConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.qkv_bias = spec.out_bias = c.use_bias;
  spec.rope_style = operations::RopeStyle::Interleaved;
  return spec;
}

std::variant<MoeSpec, MlpSpec> mlp_of(const Ernie4_5_MoeConfig& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) {
    MlpSpec spec = block_spec(c, layer_idx).mlp;
    spec.bias = c.use_bias;
    return spec;
  }
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.num_local_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.num_experts_per_tok, .least_sum = c.moe_norm_min},
                 .router_in_float32 = true,
                 .selection_bias = true,
                 .selection_bias_in = "moe_statics",
                 .shared_intermediate = c.moe_intermediate_size * c.moe_num_shared_experts,
                 .shared_bias = c.use_bias};
}

}  // namespace

Ernie4_5_MoeDecoderLayer::Ernie4_5_MoeDecoderLayer(const Ernie4_5_MoeConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx), .mlp = mlp_of(c, layer_idx), .norm_eps = c.norm_eps}) {}

}  // namespace easydel
