// Mixtral: Llama's attention, and in place of the feed-forward block a router with sparse experts.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/attention/attention.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/layers/norm.h"
#include "easydel/models/mixtral/config.h"

namespace easydel {

class MixtralDecoderLayer : public DecoderLayer {
 public:
  MixtralDecoderLayer(const MixtralConfig& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  int64_t layer_idx_;
  double router_jitter_noise_;
  const Attention& self_attn_;
  const SparseMoE& block_sparse_moe_;
  const RMSNorm& input_layernorm_;
  const RMSNorm& post_attention_layernorm_;
};

class MixtralModel : public DecoderModel<MixtralConfig, MixtralDecoderLayer>, public Pretrained<MixtralModel> {
 public:
  using DecoderModel::DecoderModel;
  std::string torch_path(const std::string& path) const override;
};

class MixtralForCausalLM : public ForCausalLM<MixtralModel>, public Pretrained<MixtralForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class MixtralForSequenceClassification : public ForSequenceClassification<MixtralModel>,
                                         public Pretrained<MixtralForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
