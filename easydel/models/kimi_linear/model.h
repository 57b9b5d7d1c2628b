// Kimi Linear: Kimi Delta Attention or latent attention, then an MLP or experts.
#pragma once

#include "easydel/infra/decoder/latent_decoder.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/layers/recurrent/kimi_delta_attention.h"
#include "easydel/models/kimi_linear/config.h"

namespace easydel {

class KimiLinearDecoderLayer : public DecoderLayer {
 public:
  KimiLinearDecoderLayer(const KimiLinearConfig& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  const KimiDeltaAttention* delta_ = nullptr;
  const LatentAttention* attention_ = nullptr;
  const SparseMoE* moe_ = nullptr;
  const MLP* mlp_ = nullptr;
  const RMSNorm *input_layernorm_, *post_attention_layernorm_;
};

class KimiLinearModel : public DecoderModel<KimiLinearConfig, KimiLinearDecoderLayer>,
                        public Pretrained<KimiLinearModel> {
 public:
  using DecoderModel::DecoderModel;
  std::string torch_path(const std::string& path) const override;

 protected:
  std::vector<RopeTableSpec> rope_tables() const override { return {}; }
};

class KimiLinearForCausalLM : public ForCausalLM<KimiLinearModel>, public Pretrained<KimiLinearForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

}  // namespace easydel
