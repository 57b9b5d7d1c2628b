// The decoder layer of most mixtures of experts: attention, then experts or in some layers an MLP, each after a norm.
#pragma once

#include <string>
#include <type_traits>
#include <variant>

#include "easydel/layers/attention/attention.h"
#include "easydel/layers/moe/moe.h"

namespace easydel {

template <class AttentionType, class AttentionSpecType>
class MoeDecoderLayer : public DecoderLayer {
 public:
  struct Parts {
    AttentionSpecType attention;
    std::variant<MoeSpec, MlpSpec> mlp;
    double norm_eps = 1e-6;
    NormSpec::Kind norm_kind = NormSpec::Kind::Rms;
    double residual_scale = 1;  // of the outputs of attention and experts
    std::string mlp_name = "mlp";
  };
  explicit MoeDecoderLayer(const Parts& parts)
      : self_attn_(add<AttentionType>("self_attn", parts.attention)),
        moe_(parts.mlp.index() == 0 ? &add<SparseMoE>(parts.mlp_name, std::get<0>(parts.mlp)) : nullptr),
        mlp_(parts.mlp.index() == 1 ? &add<MLP>(parts.mlp_name, std::get<1>(parts.mlp)) : nullptr),
        residual_scale_(parts.residual_scale),
        input_layernorm_(*add_norm(*this, "input_layernorm", parts.attention.hidden_size,
                                   {.kind = parts.norm_kind, .eps = parts.norm_eps})),
        post_attention_layernorm_(*add_norm(*this, "post_attention_layernorm", parts.attention.hidden_size,
                                            {.kind = parts.norm_kind, .eps = parts.norm_eps})) {}

  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override {
    const Attention::Output attended = attend(x_BTD, ctx);
    const at::Tensor& h_BTD = attended.hidden;
    if (moe_ && h_BTD.is_cuda() && residual_scale_ == 1) {
      const SparseMoE::Output done = moe_->add_to(h_BTD, post_attention_layernorm_);
      return {.hidden = done.hidden,
              .attention_weights = attended.weights,
              .router_logits = ctx.output_router_logits ? done.router_logits : at::Tensor()};
    }
    const at::Tensor normed_BTD = post_attention_layernorm_(h_BTD);
    const SparseMoE::Output done = moe_ ? (*moe_)(normed_BTD) : SparseMoE::Output{(*mlp_)(normed_BTD), {}};
    return {.hidden = h_BTD.add(done.hidden, residual_scale_),
            .attention_weights = attended.weights,
            .router_logits = ctx.output_router_logits ? done.router_logits : at::Tensor()};
  }

 private:
  // The residual stream behind the attention.
  Attention::Output attend(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
    if constexpr (std::is_same_v<AttentionType, Attention>) {
      if (x_BTD.is_cuda() && residual_scale_ == 1) return self_attn_.add_to(x_BTD, input_layernorm_, ctx);
    }
    const Attention::Output attended = self_attn_(input_layernorm_(x_BTD), ctx);
    return {x_BTD.add(attended.hidden, residual_scale_), attended.weights};
  }

  const AttentionType& self_attn_;
  const SparseMoE* moe_;
  const MLP* mlp_;
  double residual_scale_;
  const Norm& input_layernorm_;
  const Norm& post_attention_layernorm_;
};

}  // namespace easydel
