// Falcon-H1: attention and a Mamba 2 mixer that read the same norm, and an MLP.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/recurrent/mamba.h"
#include "easydel/models/falcon_h1/config.h"

namespace easydel {

class FalconH1DecoderLayer : public DecoderLayer {
 public:
  FalconH1DecoderLayer(const FalconH1Config& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  double attention_in_, attention_out_, mixer_out_;
  const MLP& feed_forward_;
  const Mamba2Mixer& mamba_;
  const Attention& self_attn_;
  const RMSNorm &input_layernorm_, &pre_ff_layernorm_;
};

class FalconH1Model : public DecoderModel<FalconH1Config, FalconH1DecoderLayer>, public Pretrained<FalconH1Model> {
 public:
  explicit FalconH1Model(const FalconH1Config& config);
};

class FalconH1ForCausalLM : public ForCausalLM<FalconH1Model>, public Pretrained<FalconH1ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

}  // namespace easydel
