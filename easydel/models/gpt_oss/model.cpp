#include "easydel/models/gpt_oss/model.h"

#include "easydel/infra/config_check.h"

namespace easydel {

GptOssDecoderLayer::GptOssDecoderLayer(const GptOssConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = {.hidden_size = c.hidden_size,
                                     .num_heads = c.num_attention_heads,
                                     .num_kv_heads = c.key_value_heads(),
                                     .head_dim = c.head_size(),
                                     .layer_idx = layer_idx,
                                     .qkv_bias = c.attention_bias,
                                     .out_bias = c.attention_bias,
                                     .sliding_window = c.window(layer_idx),
                                     .sinks = true,
                                     .dropout = c.attention_dropout,
                                     .init_stddev = c.initializer_range},
                       .mlp = MoeSpec{.experts = {.hidden_size = c.hidden_size,
                                                  .intermediate_size = c.intermediate_size,
                                                  .num_experts = c.num_local_experts,
                                                  .init_stddev = c.initializer_range,
                                                  .method = c.moe.method,
                                                  .transposed = true,
                                                  .bias = true,
                                                  .clamped_gate = {{c.swiglu_alpha, c.swiglu_limit}}},
                                      .router = {.top_k = c.num_experts_per_tok,
                                                 .scoring = operations::RouterScoring::SoftmaxOfChosen},
                                      .router_name = "router",
                                      .router_bias = true},
                       .norm_eps = c.rms_norm_eps}) {}

GptOssModel::GptOssModel(const GptOssConfig& config) : DecoderModel(config) { refuse_quantized(config, "mxfp4"); }

RouterBalance GptOssForCausalLM::router_balance() const {
  const auto& c = static_cast<const GptOssConfig&>(config());
  return {.top_k = c.num_experts_per_tok,
          .coefficient = c.router_aux_loss_coef,
          .output_router_logits = c.output_router_logits};
}

}  // namespace easydel
