// Mixtral: Llama's attention, and in place of the feed-forward block a router with sparse experts.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/attention/attention.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/layers/norm.h"
#include "easydel/models/mixtral/config.h"

namespace easydel {

// Experts as Mixtral's files have them.
MoeSpec mixtral_experts(const MoeConfig& config);
// The block is block_sparse_moe in files and mlp in transformers' memory.
std::string mixtral_torch_path(const std::string& path);
// In training, with noise of this size around 1 on what a router and its experts read.
at::Tensor router_jitter(const at::Tensor& x_BTD, double noise, const ForwardContext& ctx, int64_t layer_idx);

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
