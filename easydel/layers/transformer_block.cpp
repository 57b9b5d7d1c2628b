// Letters: B batch, T tokens, D hidden.
#include "easydel/layers/transformer_block.h"

#include <ATen/ATen.h>

#include <limits>

namespace easydel {
namespace {

at::Tensor clamped(const at::Tensor& x) {
  if (x.scalar_type() != at::kHalf) return x;
  const double largest = std::numeric_limits<at::Half>::max();
  const at::Tensor bound = at::where(x.isinf().any(), at::scalar_tensor(largest - 1000, x.options()),
                                     at::scalar_tensor(largest, x.options()));
  return at::clamp(x, bound.neg(), bound);
}

}  // namespace

TransformerBlock::TransformerBlock(const TransformerBlockSpec& spec)
    : layer_idx_(spec.attention.layer_idx),
      post_norm_(spec.post_norm),
      clamps_half_(spec.clamps_half),
      dropout_(spec.dropout),
      attention_(add<Attention>(spec.attention_name, spec.attention)),
      attention_norm_(add_norm(*this, spec.attention_norm, spec.attention.hidden_size, spec.norm)),
      cross_(spec.cross ? &add<CrossAttention>(spec.cross_name, *spec.cross) : nullptr),
      cross_norm_(spec.cross ? add_norm(*this, spec.cross_norm, spec.attention.hidden_size, spec.norm) : nullptr),
      mlp_(add<MLP>(spec.mlp_name, spec.mlp)),
      mlp_norm_(add_norm(*this, spec.mlp_norm, spec.attention.hidden_size, spec.norm)) {}

at::Tensor TransformerBlock::added(const at::Tensor& x, const at::Tensor& more, const Norm* norm, const char* place,
                                   const ForwardContext& ctx) const {
  at::Tensor sum = x + ctx.dropout(more, dropout_, place, layer_idx_);
  if (clamps_half_) sum = clamped(sum);
  return norm && post_norm_ ? (*norm)(sum) : sum;
}

LayerOutput TransformerBlock::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  LayerOutput out;
  const Attention::Output attended = attention_(read(attention_norm_, x_BTD), ctx);
  out.hidden = added(x_BTD, attended.hidden, attention_norm_, "resid_attn", ctx);
  out.attention_weights = attended.weights;
  if (cross_ && ctx.encoder_hidden.defined()) {
    const Attention::Output crossed = (*cross_)(read(cross_norm_, out.hidden), ctx);
    out.hidden = added(out.hidden, crossed.hidden, cross_norm_, "resid_cross", ctx);
    out.cross_weights = crossed.weights;
  }
  out.hidden = added(out.hidden, mlp_(read(mlp_norm_, out.hidden)), mlp_norm_, "resid_mlp", ctx);
  return out;
}

}  // namespace easydel
