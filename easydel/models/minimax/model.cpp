// Lightning attention: layers/recurrent/lightning_attention.cpp; attention, router and experts are Mixtral's. Letters:
// B batch, T tokens, D hidden.
#include "easydel/models/minimax/model.h"

#include <ATen/ATen.h>

#include "easydel/models/mixtral/model.h"

namespace easydel {
namespace {

LightningAttentionSpec lightning_of(const MiniMaxConfig& c, int64_t layer_idx) {
  return {.hidden_size = c.hidden_size,
          .num_heads = c.num_attention_heads,
          .head_dim = c.head_size(),
          .block_size = c.block_size,
          .num_layers = c.num_hidden_layers,
          .act = c.hidden_act,
          .layer_idx = layer_idx,
          .init_stddev = c.initializer_range};
}

}  // namespace

MiniMaxDecoderLayer::MiniMaxDecoderLayer(const MiniMaxConfig& c, int64_t layer_idx)
    : layer_idx_(layer_idx),
      router_jitter_noise_(c.router_jitter_noise),
      mixer_(c.is_linear(layer_idx) ? Factors{c.linear_attn_alpha_factor, c.linear_attn_beta_factor}
                                    : Factors{c.full_attn_alpha_factor, c.full_attn_beta_factor}),
      mlp_{c.mlp_alpha_factor, c.mlp_beta_factor} {
  if (c.is_linear(layer_idx))
    lightning_ = &add<LightningAttention>("self_attn", lightning_of(c, layer_idx));
  else
    attention_ = &add<Attention>("self_attn", block_spec(c, layer_idx).attention);
  input_layernorm_ = &add<RMSNorm>("input_layernorm", c.hidden_size, c.norm_eps);
  post_attention_layernorm_ = &add<RMSNorm>("post_attention_layernorm", c.hidden_size, c.norm_eps);
  block_sparse_moe_ = &add<SparseMoE>("block_sparse_moe", mixtral_experts(c));
}

LayerOutput MiniMaxDecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const at::Tensor read_BTD = (*input_layernorm_)(x_BTD);
  Attention::Output mixed;
  if (attention_)
    mixed = (*attention_)(read_BTD, ctx);
  else
    mixed.hidden = (*lightning_)(read_BTD, ctx);
  const at::Tensor h_BTD = (*post_attention_layernorm_)(read_BTD * mixer_.alpha + mixed.hidden * mixer_.beta);
  const SparseMoE::Output routed = (*block_sparse_moe_)(router_jitter(h_BTD, router_jitter_noise_, ctx, layer_idx_));
  return {.hidden = h_BTD * mlp_.alpha + routed.hidden * mlp_.beta,
          .attention_weights = mixed.weights,
          .router_logits = ctx.output_router_logits ? routed.router_logits : at::Tensor()};
}

std::string MiniMaxModel::torch_path(const std::string& path) const { return mixtral_torch_path(path); }

}  // namespace easydel
