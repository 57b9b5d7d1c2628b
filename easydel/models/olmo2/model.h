// OLMo 2: norms behind each block, and one over all heads of q and of k.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/olmo2/config.h"

namespace easydel {

class Olmo2DecoderLayer : public DecoderBlock {
 public:
  Olmo2DecoderLayer(const Olmo2Config& config, int64_t layer_idx);
};

class Olmo2Model : public DecoderModel<Olmo2Config, Olmo2DecoderLayer>, public Pretrained<Olmo2Model> {
 public:
  explicit Olmo2Model(const Olmo2Config& config);
};

class Olmo2ForCausalLM : public ForCausalLM<Olmo2Model>, public Pretrained<Olmo2ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Olmo2ForSequenceClassification : public ForSequenceClassification<Olmo2Model>,
                                       public Pretrained<Olmo2ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
