// Letters: B batch, T tokens, D hidden.
#include "easydel/layers/decoder_block.h"

#include "easydel/core/log.h"

namespace easydel {
namespace {

at::Tensor normed(const Norm* norm, const at::Tensor& x) { return norm ? (*norm)(x) : x; }
at::Tensor scaled(const at::Tensor& x, double factor) { return factor == 1 ? x : x * factor; }

}  // namespace

DecoderBlock::DecoderBlock(const BlockSpec& spec)
    : layer_idx_(spec.attention.layer_idx),
      dropout_(spec.dropout),
      attention_out_dropout_(spec.attention_out_dropout.value_or(spec.dropout)),
      residual_scale_(spec.residual_scale),
      dropout_of_sum_(spec.dropout_of_sum),
      parallel_(spec.parallel),
      residual_of_norm_(spec.residual_of_norm),
      attention_(add<Attention>(spec.attention_name, spec.attention)),
      mlp_(add<MLP>(spec.mlp_name, spec.mlp)),
      before_attention_(add_norm(*this, spec.before_attention, spec.attention.hidden_size, spec.norm)),
      after_attention_(add_norm(*this, spec.after_attention, spec.attention.hidden_size, spec.norm)),
      before_mlp_(add_norm(*this, spec.before_mlp, spec.attention.hidden_size, spec.norm)),
      after_mlp_(add_norm(*this, spec.after_mlp, spec.attention.hidden_size, spec.norm)) {}

const char* DecoderBlock::describe(operations::DecodeLayer& layer, const at::Tensor& x_BTD,
                                   const ForwardContext& ctx) const {
  if (!ctx.fused_decode) return "it is switched off";
  if (!ctx.cache) return "there is no cache";
  if (x_BTD.size(0) * x_BTD.size(1) != 1) return "there is more than one token";
  if (!x_BTD.is_cpu() || x_BTD.scalar_type() != at::kFloat) return "the model does not compute in float32 on the CPU";
  if (at::GradMode::is_enabled() && x_BTD.requires_grad()) return "gradients are enabled";
  if (parallel()) return "the model is on a mesh";
  if (parallel_) return "attention and MLP read the same input";
  if (after_attention_ || after_mlp_) return "there are norms after attention or MLP";
  if (!before_attention_ || !before_mlp_) return "there is no norm before attention or MLP";
  if (residual_scale_ != 1) return "the residual stream is scaled";
  if (residual_of_norm_) return "the residual stream is normalized";
  if ((dropout_ > 0 || attention_out_dropout_ > 0) && ctx.dropout_key) return "there is dropout";
  const auto first = before_attention_->decode_norm(), second = before_mlp_->decode_norm();
  if (!first || !second) return "the norms are not RMS norms with plain float32 weights";
  if (const char* obstacle = attention_.describe(layer, ctx)) return obstacle;
  if (const char* obstacle = mlp_.describe(layer)) return obstacle;
  layer.before_attention = *first;
  layer.before_mlp = *second;
  return operations::decode_obstacle(layer);
}

bool DecoderBlock::is_plain(const ForwardContext& ctx) const {
  const bool drops = ctx.dropout_key && (dropout_ > 0 || attention_out_dropout_ > 0);
  return before_attention_ && before_mlp_ && !after_attention_ && !after_mlp_ && !parallel_ && !residual_of_norm_ &&
         residual_scale_ == 1 && !drops && !parallel();
}

// Of the first layer, when the answer is new: once for a model, not for each token.
void DecoderBlock::log_path(const char* obstacle) const {
  if (layer_idx_ != 0 || !log::enabled(log::Level::Debug)) return;
  const char* path = obstacle ? obstacle : "fused";
  if (logged_.exchange(path) == path) return;
  if (obstacle)
    log::debug("[decode] layers run operation by operation: ", obstacle, ".");
  else
    log::debug("[decode] layers run fused.");
}

LayerOutput DecoderBlock::operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const {
  operations::DecodeLayer layer;
  const char* obstacle = describe(layer, x_BTD, ctx);
  if (ctx.cache && x_BTD.size(1) == 1) log_path(obstacle);
  if (!obstacle) return {.hidden = operations::decode_layer(x_BTD.contiguous(), layer)};
  if (is_plain(ctx) && x_BTD.is_cuda()) {
    const Attention::Output attended = attention_.add_to(x_BTD, *before_attention_, ctx);
    return {.hidden = mlp_.add_to(attended.hidden, *before_mlp_), .attention_weights = attended.weights};
  }
  const at::Tensor read_BTD = normed(before_attention_, x_BTD);
  const Attention::Output attended = attention_(read_BTD, ctx);
  const at::Tensor added_BTD = normed(after_attention_, attended.hidden);
  const auto branch = [&](const at::Tensor& out, double dropout, const char* place) {
    return scaled(ctx.dropout(out, dropout, place, layer_idx_), residual_scale_);
  };
  if (parallel_ && dropout_of_sum_) {
    const at::Tensor inner_BTD = normed(after_mlp_, mlp_(before_mlp_ ? (*before_mlp_)(x_BTD) : read_BTD));
    return {.hidden = x_BTD + branch(inner_BTD + added_BTD, dropout_, "resid"), .attention_weights = attended.weights};
  }
  const at::Tensor h_BTD =
      (residual_of_norm_ ? read_BTD : x_BTD) + branch(added_BTD, attention_out_dropout_, "resid_attn");
  const at::Tensor& from_BTD = !parallel_ ? h_BTD : before_mlp_ ? x_BTD : read_BTD;
  const at::Tensor read_by_mlp_BTD = normed(before_mlp_, from_BTD);
  const at::Tensor inner_BTD = normed(after_mlp_, mlp_(read_by_mlp_BTD));
  return {.hidden = (residual_of_norm_ ? read_by_mlp_BTD : h_BTD) + branch(inner_BTD, dropout_, "resid_mlp"),
          .attention_weights = attended.weights};
}

}  // namespace easydel
