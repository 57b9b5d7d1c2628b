// The layer of encoders and of the decoders behind them: attention, perhaps attention to an encoder, and an MLP.
#pragma once

#include <optional>

#include "easydel/layers/attention/cross_attention.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/norm.h"

namespace easydel {

// Names may have dots ("attention.output.LayerNorm") and be empty: the MLP's weights are then the layer's own. The
// direction of attention is that of the context's mask.
struct TransformerBlockSpec {
  AttentionSpec attention;
  std::optional<AttentionSpec> cross = {};
  MlpSpec mlp;
  NormSpec norm;
  bool post_norm = false;    // a norm follows each residual sum; else it precedes attention and MLP
  double dropout = 0;        // of what attention and MLP add to the residual stream
  bool clamps_half = false;  // sums in float16 are kept finite
  std::string attention_name = "self_attn", cross_name = "encoder_attn", mlp_name = "mlp";
  std::string attention_norm = "self_attn_layer_norm", cross_norm = "encoder_attn_layer_norm";
  std::string mlp_norm = "final_layer_norm";  // an empty name of a norm: none
};

class TransformerBlock : public DecoderLayer {
 public:
  explicit TransformerBlock(const TransformerBlockSpec& spec);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

  const Attention& attention() const { return attention_; }

 private:
  at::Tensor read(const Norm* norm, const at::Tensor& x) const { return norm && !post_norm_ ? (*norm)(x) : x; }
  at::Tensor added(const at::Tensor& x, const at::Tensor& more, const Norm* norm, const char* place,
                   const ForwardContext& ctx) const;

  int64_t layer_idx_;
  bool post_norm_, clamps_half_;
  double dropout_;
  const Attention& attention_;
  const Norm* attention_norm_;
  const CrossAttention* cross_ = nullptr;
  const Norm* cross_norm_ = nullptr;
  const MLP& mlp_;
  const Norm* mlp_norm_;
};

}  // namespace easydel
