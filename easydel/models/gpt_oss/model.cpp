// The layer: layers/moe/moe_decoder.h; its router and experts: layers/moe/moe.cpp. The specs below are what this family
// changes; models/llama/model.cpp shows the parts that all decoders share.
#include "easydel/models/gpt_oss/model.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

namespace {

AttentionSpec attention_of(const GptOssConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.sinks = true;
  return spec;
}

MoeSpec experts_of(const GptOssConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.intermediate_size,
                      .num_experts = c.num_local_experts,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method,
                      .transposed = true,
                      .bias = true,
                      .clamped_gate = {{c.swiglu_alpha, c.swiglu_limit}}},
          .router = {.top_k = c.num_experts_per_tok, .scoring = operations::RouterScoring::SoftmaxOfChosen},
          .router_name = "router",
          .router_bias = true};
}

}  // namespace

GptOssDecoderLayer::GptOssDecoderLayer(const GptOssConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = attention_of(c, layer_idx), .mlp = experts_of(c), .norm_eps = c.norm_eps}) {}

GptOssModel::GptOssModel(const GptOssConfig& config) : DecoderModel(config) {}

}  // namespace easydel
