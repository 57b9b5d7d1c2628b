// EXAONE 4: norms on each head, and full-attention layers without rotary embeddings.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/exaone4/config.h"

namespace easydel {

class Exaone4DecoderLayer : public DecoderBlock {
 public:
  Exaone4DecoderLayer(const Exaone4Config& config, int64_t layer_idx);
};

class Exaone4Model : public DecoderModel<Exaone4Config, Exaone4DecoderLayer>, public Pretrained<Exaone4Model> {
 public:
  using DecoderModel::DecoderModel;
};

class Exaone4ForCausalLM : public ForCausalLM<Exaone4Model>, public Pretrained<Exaone4ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Exaone4ForSequenceClassification : public ForSequenceClassification<Exaone4Model>,
                                         public Pretrained<Exaone4ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
