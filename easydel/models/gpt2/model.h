// GPT-2: learned positions, biases, layer norms, and weights stored as [in, out].
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/gpt2/config.h"

namespace easydel {

class GPT2Block : public DecoderBlock {
 public:
  GPT2Block(const GPT2Config& config, int64_t layer_idx);
};

class GPT2Model : public BaseModule, public Pretrained<GPT2Model> {
 public:
  using ConfigType = GPT2Config;
  explicit GPT2Model(const GPT2Config& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;
  const Embedding& embeddings() const { return wte_; }

 private:
  double embd_pdrop_;
  const Embedding& wte_;
  const Embedding& wpe_;
  ModuleList<GPT2Block>& h_;
  const LayerNorm& ln_f_;
};

class GPT2LMHeadModel : public ForCausalLM<GPT2Model>, public Pretrained<GPT2LMHeadModel> {
 public:
  explicit GPT2LMHeadModel(const GPT2Config& config) : ForCausalLM(config, "transformer") {}
};

class GPT2ForSequenceClassification : public ForSequenceClassification<GPT2Model>,
                                      public Pretrained<GPT2ForSequenceClassification> {
 public:
  explicit GPT2ForSequenceClassification(const GPT2Config& config) : ForSequenceClassification(config, "transformer") {}
};

}  // namespace easydel
