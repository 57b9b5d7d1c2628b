// Starcoder2: Llama with layer norms and a plain MLP.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/starcoder2/config.h"

namespace easydel {

class Starcoder2DecoderLayer : public DecoderBlock {
 public:
  Starcoder2DecoderLayer(const Starcoder2Config& config, int64_t layer_idx);
};

class Starcoder2Model : public DecoderModel<Starcoder2Config, Starcoder2DecoderLayer>,
                        public Pretrained<Starcoder2Model> {
 public:
  explicit Starcoder2Model(const Starcoder2Config& config);
};

class Starcoder2ForCausalLM : public ForCausalLM<Starcoder2Model>, public Pretrained<Starcoder2ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Starcoder2ForSequenceClassification : public ForSequenceClassification<Starcoder2Model>,
                                            public Pretrained<Starcoder2ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
