// Llama: rotary grouped attention, gated feed-forward, RMS norms.
#pragma once

#include "easydel/infra/decoder.h"
#include "easydel/layers/attention.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/norm.h"
#include "easydel/models/llama/config.h"

namespace easydel {

class LlamaDecoderLayer : public DecoderLayer {
 public:
  LlamaDecoderLayer(const LlamaConfig& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  const Attention& self_attn_;
  const MLP& mlp_;
  const RMSNorm& input_layernorm_;
  const RMSNorm& post_attention_layernorm_;
};

class LlamaModel : public DecoderModel<LlamaConfig, LlamaDecoderLayer> {
 public:
  using DecoderModel::DecoderModel;
};

class LlamaForCausalLM : public ForCausalLM<LlamaModel> {
 public:
  using ForCausalLM::ForCausalLM;
};

class LlamaForSequenceClassification : public ForSequenceClassification<LlamaModel> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
