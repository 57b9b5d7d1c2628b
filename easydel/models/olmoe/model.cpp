// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/olmoe/model.h"

namespace easydel {
namespace {

AttentionSpec attention_of(const OlmoeConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.qk_norm = HeadNormSpec{{.eps = c.norm_eps}, HeadNormSpec::Over::AllHeads};
  spec.clip = c.clip_qkv.value_or(0);
  return spec;
}

MoeSpec experts_of(const OlmoeConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.intermediate_size,
                      .num_experts = c.num_local_experts,
                      .act = c.hidden_act,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method},
          .router = {.top_k = c.num_experts_per_tok, .renormalize = c.norm_topk_prob}};
}

}  // namespace

OlmoeDecoderLayer::OlmoeDecoderLayer(const OlmoeConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx), .mlp = experts_of(c), .norm_eps = c.norm_eps}) {}

}  // namespace easydel
