// MiniMax-Text-01: lightning attention or attention, then experts; the residual stream goes through the norms.
#pragma once

#include <variant>

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/layers/recurrent/lightning_attention.h"
#include "easydel/models/minimax/config.h"

namespace easydel {

class MiniMaxDecoderLayer : public DecoderLayer {
 public:
  MiniMaxDecoderLayer(const MiniMaxConfig& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  struct Factors {
    double alpha, beta;  // of the residual stream, and of what is added to it
  };
  int64_t layer_idx_;
  double router_jitter_noise_;
  Factors mixer_, mlp_;
  const Attention* attention_ = nullptr;
  const LightningAttention* lightning_ = nullptr;
  const SparseMoE* block_sparse_moe_;
  const RMSNorm *input_layernorm_, *post_attention_layernorm_;
};

class MiniMaxModel : public DecoderModel<MiniMaxConfig, MiniMaxDecoderLayer>, public Pretrained<MiniMaxModel> {
 public:
  using DecoderModel::DecoderModel;
  std::string torch_path(const std::string& path) const override;
};

class MiniMaxForCausalLM : public ForCausalLM<MiniMaxModel>, public Pretrained<MiniMaxForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class MiniMaxForSequenceClassification : public ForSequenceClassification<MiniMaxModel>,
                                         public Pretrained<MiniMaxForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
