// Linear attention: layers/recurrent/kimi_delta_attention.cpp; latent attention and experts are DeepSeek's. Letters: B
// batch, T tokens, D hidden.
#include "easydel/models/kimi_linear/model.h"

#include "easydel/models/mixtral/model.h"

namespace easydel {
namespace {

KimiDeltaSpec delta_of(const KimiLinearConfig& c, int64_t layer_idx) {
  return {.hidden_size = c.hidden_size,
          .num_heads = c.linear_num_heads,
          .head_dim = c.linear_head_dim,
          .conv_kernel = c.linear_conv_kernel_dim,
          .norm_eps = c.norm_eps,
          .act = c.hidden_act,
          .layer_idx = layer_idx,
          .init_stddev = c.initializer_range};
}

LatentAttentionSpec attention_of(const KimiLinearConfig& c, int64_t layer_idx) {
  LatentAttentionSpec spec = latent_attention_spec(c, layer_idx);
  spec.rotated = false;
  return spec;
}

MoeSpec experts_of(const KimiLinearConfig& c) {
  return {.experts = {.hidden_size = c.hidden_size,
                      .intermediate_size = c.moe_intermediate_size,
                      .num_experts = c.n_routed_experts,
                      .act = c.hidden_act,
                      .init_stddev = c.initializer_range,
                      .method = c.moe.method,
                      .gate_name = "w1",
                      .up_name = "w3",
                      .down_name = "w2"},
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

KimiLinearDecoderLayer::KimiLinearDecoderLayer(const KimiLinearConfig& c, int64_t layer_idx) {
  if (c.is_linear(layer_idx))
    delta_ = &add<KimiDeltaAttention>("self_attn", delta_of(c, layer_idx));
  else
    attention_ = &add<LatentAttention>("self_attn", attention_of(c, layer_idx));
  if (c.is_sparse(layer_idx))
    moe_ = &add<SparseMoE>("block_sparse_moe", experts_of(c));
  else
    mlp_ = &add<MLP>("block_sparse_moe", block_spec(c, layer_idx).mlp);
  input_layernorm_ = &add<RMSNorm>("input_layernorm", c.hidden_size, c.norm_eps);
  post_attention_layernorm_ = &add<RMSNorm>("post_attention_layernorm", c.hidden_size, c.norm_eps);
}

LayerOutput KimiLinearDecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const at::Tensor read_BTD = (*input_layernorm_)(x_BTD);
  Attention::Output mixed;
  if (attention_)
    mixed = (*attention_)(read_BTD, ctx);
  else
    mixed.hidden = (*delta_)(read_BTD, ctx);
  const at::Tensor h_BTD = x_BTD + mixed.hidden;
  const at::Tensor normed_BTD = (*post_attention_layernorm_)(h_BTD);
  const SparseMoE::Output done = moe_ ? (*moe_)(normed_BTD) : SparseMoE::Output{(*mlp_)(normed_BTD), {}};
  return {.hidden = h_BTD + done.hidden,
          .attention_weights = mixed.weights,
          .router_logits = ctx.output_router_logits ? done.router_logits : at::Tensor()};
}

// Files have the forget gate's weights beside the others of the attention.
std::string KimiLinearModel::torch_path(const std::string& path) const {
  constexpr std::string_view kAttention = ".self_attn.";
  const std::string name = mixtral_torch_path(path);
  const auto at = name.find(kAttention);
  if (at == std::string::npos) return name;
  const std::string own = name.substr(at + kAttention.size());
  for (const char* gate : {"f_a_proj", "f_b_proj", "dt_bias", "A_log"}) {
    if (own.starts_with(gate)) return name.substr(0, at + kAttention.size()) + "forget_gate." + own;
  }
  return name;
}

}  // namespace easydel
