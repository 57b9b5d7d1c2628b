// Letters: B batch, T tokens, D hidden.
#include "easydel/layers/decoder_block.h"

namespace easydel {
namespace {

at::Tensor normed(const Norm* norm, const at::Tensor& x) { return norm ? (*norm)(x) : x; }
at::Tensor scaled(const at::Tensor& x, double factor) { return factor == 1 ? x : x * factor; }

}  // namespace

DecoderBlock::DecoderBlock(const BlockSpec& spec)
    : layer_idx_(spec.attention.layer_idx),
      dropout_(spec.dropout),
      residual_scale_(spec.residual_scale),
      parallel_(spec.parallel),
      attention_(add<Attention>(spec.attention_name, spec.attention)),
      mlp_(add<MLP>(spec.mlp_name, spec.mlp)),
      before_attention_(add_norm(*this, spec.before_attention, spec.attention.hidden_size, spec.norm)),
      after_attention_(add_norm(*this, spec.after_attention, spec.attention.hidden_size, spec.norm)),
      before_mlp_(add_norm(*this, spec.before_mlp, spec.attention.hidden_size, spec.norm)),
      after_mlp_(add_norm(*this, spec.after_mlp, spec.attention.hidden_size, spec.norm)) {}

LayerOutput DecoderBlock::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const at::Tensor read_BTD = normed(before_attention_, x_BTD);
  const Attention::Output attended = attention_(read_BTD, ctx);
  const at::Tensor added_BTD = normed(after_attention_, attended.hidden);
  const at::Tensor h_BTD = x_BTD + scaled(ctx.dropout(added_BTD, dropout_, "resid_attn", layer_idx_), residual_scale_);
  const at::Tensor& from_BTD = !parallel_ ? h_BTD : before_mlp_ ? x_BTD : read_BTD;
  const at::Tensor inner_BTD = normed(after_mlp_, mlp_(normed(before_mlp_, from_BTD)));
  return {.hidden = h_BTD + scaled(ctx.dropout(inner_BTD, dropout_, "resid_mlp", layer_idx_), residual_scale_),
          .attention_weights = attended.weights};
}

}  // namespace easydel
