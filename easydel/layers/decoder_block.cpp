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

std::optional<at::Tensor> DecoderBlock::decode(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  const bool is_one = x_BTD.is_cpu() && x_BTD.scalar_type() == at::kFloat && x_BTD.size(0) * x_BTD.size(1) == 1;
  const bool has_gradient = at::GradMode::is_enabled() && x_BTD.requires_grad();
  if (!is_one || !ctx.cache || has_gradient || parallel() || parallel_ || after_attention_ || after_mlp_ ||
      !before_attention_ || !before_mlp_ || residual_scale_ != 1 || (dropout_ > 0 && ctx.dropout_key))
    return std::nullopt;
  operations::DecodeLayer layer;
  const auto first = before_attention_->decode_norm(), second = before_mlp_->decode_norm();
  if (!first || !second || !attention_.describe(layer, ctx) || !mlp_.describe(layer)) return std::nullopt;
  layer.before_attention = *first;
  layer.before_mlp = *second;
  if (!operations::can_decode(layer)) return std::nullopt;
  return operations::decode_layer(x_BTD.contiguous(), layer);
}

LayerOutput DecoderBlock::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  if (const std::optional<at::Tensor> next = decode(x_BTD, ctx)) return {.hidden = *next};
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
