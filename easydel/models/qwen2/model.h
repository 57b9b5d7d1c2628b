// Qwen2: Llama with biases on q, k and v.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/qwen2/config.h"

namespace easydel {

class Qwen2DecoderLayer : public DecoderBlock {
 public:
  Qwen2DecoderLayer(const Qwen2Config& config, int64_t layer_idx);
};

class Qwen2Model : public DecoderModel<Qwen2Config, Qwen2DecoderLayer>, public Pretrained<Qwen2Model> {
 public:
  using DecoderModel::DecoderModel;
};

class Qwen2ForCausalLM : public ForCausalLM<Qwen2Model>, public Pretrained<Qwen2ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Qwen2ForSequenceClassification : public ForSequenceClassification<Qwen2Model>,
                                       public Pretrained<Qwen2ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
