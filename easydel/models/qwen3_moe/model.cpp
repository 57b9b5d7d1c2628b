#include "easydel/models/qwen3_moe/model.h"

namespace easydel {
namespace {

std::variant<MoeSpec, MlpSpec> mlp_of(const Qwen3MoeConfig& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) {
    return MlpSpec{.hidden_size = c.hidden_size,
                   .intermediate_size = c.intermediate_size,
                   .act = c.hidden_act,
                   .init_stddev = c.initializer_range};
  }
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.num_local_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.num_experts_per_tok, .renormalize = c.norm_topk_prob}};
}

}  // namespace

Qwen3MoeDecoderLayer::Qwen3MoeDecoderLayer(const Qwen3MoeConfig& c, int64_t layer_idx)
    : MoeDecoderLayer({.attention = {.hidden_size = c.hidden_size,
                                     .num_heads = c.num_attention_heads,
                                     .num_kv_heads = c.key_value_heads(),
                                     .head_dim = c.head_size(),
                                     .layer_idx = layer_idx,
                                     .qkv_bias = c.attention_bias,
                                     .out_bias = c.attention_bias,
                                     .qk_norm = HeadNormSpec{.norm = {.eps = c.rms_norm_eps}},
                                     .sliding_window = c.sliding_window.value_or(0),
                                     .dropout = c.attention_dropout,
                                     .init_stddev = c.initializer_range},
                       .mlp = mlp_of(c, layer_idx),
                       .norm_eps = c.rms_norm_eps}) {}

RouterBalance Qwen3MoeForCausalLM::router_balance() const {
  const auto& c = static_cast<const Qwen3MoeConfig&>(config());
  return {.top_k = c.num_experts_per_tok,
          .coefficient = c.router_aux_loss_coef,
          .output_router_logits = c.output_router_logits};
}

}  // namespace easydel
