// DBRX: q, k and v in one matrix and clipped, layer norms without biases, experts whose matrices files hold in one.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/models/dbrx/config.h"

namespace easydel {

class DbrxNormAttentionNorm : public Module {
 public:
  DbrxNormAttentionNorm(const DbrxConfig& config, int64_t layer_idx);

  const Norm& norm_1;
  const Attention& attn;
  const Norm& norm_2;
};

class DbrxBlock : public DecoderLayer {
 public:
  DbrxBlock(const DbrxConfig& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  int64_t layer_idx_;
  double dropout_, jitter_;
  const DbrxNormAttentionNorm& norm_attn_norm_;
  const SparseMoE& ffn_;
};

class DbrxModel : public DecoderModel<DbrxConfig, DbrxBlock>, public Pretrained<DbrxModel> {
 public:
  explicit DbrxModel(const DbrxConfig& config);
  std::string torch_path(const std::string& path) const override;
};

class DbrxForCausalLM : public ForCausalLM<DbrxModel>, public Pretrained<DbrxForCausalLM> {
 public:
  explicit DbrxForCausalLM(const DbrxConfig& config) : ForCausalLM(config, "transformer") {}
};

}  // namespace easydel
