// The layer of most decoders: attention and an MLP, with norms and a residual stream.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "easydel/layers/attention/attention.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/norm.h"

namespace easydel {

struct BlockSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  NormSpec norm;
  double dropout = 0;                                // of the outputs of attention and MLP
  std::optional<double> attention_out_dropout = {};  // of the attention's, where it differs
  bool dropout_of_sum = false;                       // parallel: one for both
  double residual_scale = 1;                         // of the same, before they are added to the residual stream
  bool parallel = false;                             // the MLP reads the input of the attention, not its result
  bool residual_of_norm = false;  // the residual stream goes through the norms before attention and MLP
  std::string attention_name = "self_attn", mlp_name = "mlp";
  // The norms before and after each of the two; an empty name: none. If parallel and without its own norm, the MLP
  // reads the attention's.
  std::string before_attention = "input_layernorm", after_attention = "";
  std::string before_mlp = "post_attention_layernorm", after_mlp = "";
};

class DecoderBlock : public DecoderLayer {
 public:
  explicit DecoderBlock(const BlockSpec& spec);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  // Describes the layer for decode_layer, which takes the one new token of a sequence in one operation; or says why it
  // cannot.
  const char* describe(operations::DecodeLayer& layer, const at::Tensor& x_BTD, const ForwardContext& ctx) const;
  // Whether the layer is h = x + attention(norm(x)), h + mlp(norm(h)), on one device.
  bool is_plain(const ForwardContext& ctx) const;
  void log_path(const char* obstacle) const;

  int64_t layer_idx_;
  double dropout_, attention_out_dropout_, residual_scale_;
  bool dropout_of_sum_, parallel_, residual_of_norm_;
  const Attention& attention_;
  const MLP& mlp_;
  const Norm *before_attention_, *after_attention_, *before_mlp_, *after_mlp_;
  mutable std::atomic<const char*> logged_{nullptr};
};

}  // namespace easydel
