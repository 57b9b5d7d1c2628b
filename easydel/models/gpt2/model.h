// GPT-2: learned positions, biases, layer norms, and weights stored as [in, out].
#pragma once

#include "easydel/infra/decoder.h"
#include "easydel/layers/attention.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/norm.h"
#include "easydel/models/gpt2/config.h"

namespace easydel {

class GPT2Block : public DecoderLayer {
 public:
  GPT2Block(const GPT2Config& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  int64_t layer_idx_;
  double resid_pdrop_;
  const LayerNorm& ln_1_;
  const Attention& attn_;
  const LayerNorm& ln_2_;
  const MLP& mlp_;
};

class GPT2Model : public BaseModule {
 public:
  using ConfigType = GPT2Config;
  explicit GPT2Model(const GPT2Config& config);
  ModelOutput forward(const ModelInputs& inputs) const override;
  const Embedding& embeddings() const { return wte_; }

 private:
  double embd_pdrop_;
  const Embedding& wte_;
  const Embedding& wpe_;
  ModuleList<GPT2Block>& h_;
  const LayerNorm& ln_f_;
};

class GPT2LMHeadModel : public ForCausalLM<GPT2Model> {
 public:
  explicit GPT2LMHeadModel(const GPT2Config& config) : ForCausalLM(config, "transformer") {}
};

class GPT2ForSequenceClassification : public ForSequenceClassification<GPT2Model> {
 public:
  explicit GPT2ForSequenceClassification(const GPT2Config& config) : ForSequenceClassification(config, "transformer") {}
};

}  // namespace easydel
