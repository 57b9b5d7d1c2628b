// Gemma 2: four norms in a layer, soft caps, and a window in every other layer.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/gemma2/config.h"

namespace easydel {

class Gemma2DecoderLayer : public DecoderBlock {
 public:
  Gemma2DecoderLayer(const Gemma2Config& config, int64_t layer_idx);
};

class Gemma2Model : public DecoderModel<Gemma2Config, Gemma2DecoderLayer>, public Pretrained<Gemma2Model> {
 public:
  explicit Gemma2Model(const Gemma2Config& config);
};

class Gemma2ForCausalLM : public ForCausalLM<Gemma2Model>, public Pretrained<Gemma2ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

class Gemma2ForSequenceClassification : public ForSequenceClassification<Gemma2Model>,
                                        public Pretrained<Gemma2ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
