// Linear attention: layers/recurrent/gated_delta_net.cpp; attention, router and experts as in other families.
#include "easydel/models/qwen3_next/model.h"

#include <ATen/ATen.h>

namespace easydel {

NormSpec zero_centered_norm(const DecoderConfig& c) {
  return {.eps = c.norm_eps, .weight_offset = 1, .multiply_before_cast = true};
}

AttentionSpec gated_attention(const DecoderConfig& c, int64_t layer_idx) {
  AttentionSpec spec = block_spec(c, layer_idx).attention;
  spec.qk_norm = HeadNormSpec{.norm = zero_centered_norm(c)};
  spec.output_gate = true;
  return spec;
}

GatedDeltaNetSpec delta_net(const DecoderConfig& c, const LinearAttentionKeys& linear, int64_t layer_idx) {
  return {.hidden_size = c.hidden_size,
          .key_heads = linear.num_key_heads,
          .value_heads = linear.num_value_heads,
          .key_dim = linear.key_head_dim,
          .value_dim = linear.value_head_dim,
          .conv_kernel = linear.conv_kernel_dim,
          .norm_eps = c.norm_eps,
          .act = c.hidden_act,
          .layer_idx = layer_idx,
          .init_stddev = c.initializer_range};
}

HybridDecoderLayer::HybridDecoderLayer(const Parts& parts) {
  int64_t hidden = 0;
  if (const auto* attention = std::get_if<AttentionSpec>(&parts.mixer)) {
    hidden = attention->hidden_size;
    self_attn_ = &add<Attention>("self_attn", *attention);
  } else {
    hidden = std::get<GatedDeltaNetSpec>(parts.mixer).hidden_size;
    linear_attn_ = &add<GatedDeltaNet>("linear_attn", std::get<GatedDeltaNetSpec>(parts.mixer));
  }
  if (const auto* experts = std::get_if<MoeSpec>(&parts.mlp)) {
    SparseMoE& moe = add<SparseMoE>("mlp", *experts);
    moe_ = &moe;
    if (parts.shared_intermediate > 0) {
      const ExpertsSpec& each = experts->experts;
      auto shared = std::make_unique<MLP>(MlpSpec{.hidden_size = hidden,
                                                  .intermediate_size = parts.shared_intermediate,
                                                  .act = each.act,
                                                  .init_stddev = each.init_stddev});
      auto gate =
          std::make_unique<Linear>(hidden, 1, LinearOptions{.init_stddev = each.init_stddev, .name = "moe_gate"});
      shared_expert_ = shared.get();
      shared_expert_gate_ = gate.get();
      moe.attach("shared_expert", std::move(shared));
      moe.attach("shared_expert_gate", std::move(gate));
    }
  } else {
    mlp_ = &add<MLP>("mlp", std::get<MlpSpec>(parts.mlp));
  }
  input_layernorm_ = add_norm(*this, "input_layernorm", hidden, parts.norm);
  post_attention_layernorm_ = add_norm(*this, "post_attention_layernorm", hidden, parts.norm);
}

LayerOutput HybridDecoderLayer::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const at::Tensor read_BTD = (*input_layernorm_)(x_BTD);
  Attention::Output mixed;
  if (self_attn_)
    mixed = (*self_attn_)(read_BTD, ctx);
  else
    mixed.hidden = (*linear_attn_)(read_BTD, ctx);
  const at::Tensor h_BTD = x_BTD + mixed.hidden;
  const at::Tensor normed_BTD = (*post_attention_layernorm_)(h_BTD);
  SparseMoE::Output done = moe_ ? (*moe_)(normed_BTD) : SparseMoE::Output{(*mlp_)(normed_BTD), {}};
  if (shared_expert_)
    done.hidden = done.hidden + at::sigmoid((*shared_expert_gate_)(normed_BTD)) * (*shared_expert_)(normed_BTD);
  return {.hidden = h_BTD + done.hidden,
          .attention_weights = mixed.weights,
          .router_logits = ctx.output_router_logits ? done.router_logits : at::Tensor()};
}

namespace {

std::variant<MoeSpec, MlpSpec> qwen3_next_mlp(const Qwen3NextConfig& c, int64_t layer_idx) {
  if (!c.has_experts(layer_idx)) return block_spec(c, layer_idx).mlp;
  return MoeSpec{.experts = {.hidden_size = c.hidden_size,
                             .intermediate_size = c.moe_intermediate_size,
                             .num_experts = c.num_local_experts,
                             .act = c.hidden_act,
                             .init_stddev = c.initializer_range,
                             .method = c.moe.method},
                 .router = {.top_k = c.num_experts_per_tok, .renormalize = c.norm_topk_prob}};
}

HybridDecoderLayer::Parts qwen3_next_parts(const Qwen3NextConfig& c, int64_t layer_idx) {
  HybridDecoderLayer::Parts parts{.mixer = gated_attention(c, layer_idx),
                                  .mlp = qwen3_next_mlp(c, layer_idx),
                                  .norm = zero_centered_norm(c),
                                  .shared_intermediate = c.shared_expert_intermediate_size};
  if (c.linear.is_linear(layer_idx)) parts.mixer = delta_net(c, c.linear, layer_idx);
  return parts;
}

}  // namespace

Qwen3NextDecoderLayer::Qwen3NextDecoderLayer(const Qwen3NextConfig& c, int64_t layer_idx)
    : HybridDecoderLayer(qwen3_next_parts(c, layer_idx)) {}

}  // namespace easydel
