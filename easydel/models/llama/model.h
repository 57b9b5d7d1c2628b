// Llama: rotary grouped attention, gated feed-forward, RMS norms.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/llama/config.h"

namespace easydel {

class LlamaDecoderLayer : public DecoderBlock {
 public:
  LlamaDecoderLayer(const LlamaConfig& config, int64_t layer_idx);
};

class LlamaModel : public DecoderModel<LlamaConfig, LlamaDecoderLayer>, public Pretrained<LlamaModel> {
 public:
  using DecoderModel::DecoderModel;
};

class LlamaForCausalLM : public ForCausalLM<LlamaModel>, public Pretrained<LlamaForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class LlamaForSequenceClassification : public ForSequenceClassification<LlamaModel>,
                                       public Pretrained<LlamaForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
