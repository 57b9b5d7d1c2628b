// The decoder layer of most mixtures of experts: attention, then experts or in some layers an MLP, each after a norm.
#pragma once

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
  };
  explicit MoeDecoderLayer(const Parts& parts)
      : self_attn_(add<AttentionType>("self_attn", parts.attention)),
        moe_(parts.mlp.index() == 0 ? &add<SparseMoE>("mlp", std::get<0>(parts.mlp)) : nullptr),
        mlp_(parts.mlp.index() == 1 ? &add<MLP>("mlp", std::get<1>(parts.mlp)) : nullptr),
        input_layernorm_(add<RMSNorm>("input_layernorm", parts.attention.hidden_size, parts.norm_eps)),
        post_attention_layernorm_(
            add<RMSNorm>("post_attention_layernorm", parts.attention.hidden_size, parts.norm_eps)) {}

  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override {
    const Attention::Output attended = self_attn_(input_layernorm_(x_BTD), ctx);
    const at::Tensor h_BTD = x_BTD.add(attended.hidden);
    const at::Tensor normed_BTD = post_attention_layernorm_(h_BTD);
    const SparseMoE::Output done = moe_ ? (*moe_)(normed_BTD) : SparseMoE::Output{(*mlp_)(normed_BTD), {}};
    return {.hidden = h_BTD.add(done.hidden),
            .attention_weights = attended.weights,
            .router_logits = ctx.output_router_logits ? done.router_logits : at::Tensor()};
  }

 private:
  const AttentionType& self_attn_;
  const SparseMoE* moe_;
  const MLP* mlp_;
  const RMSNorm& input_layernorm_;
  const RMSNorm& post_attention_layernorm_;
};

}  // namespace easydel
