// Phi-3: Llama's shape with q, k and v in one projection, and gate and up in another.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/phi3/config.h"

namespace easydel {

class Phi3DecoderLayer : public DecoderBlock {
 public:
  Phi3DecoderLayer(const Phi3Config& config, int64_t layer_idx);
};

class Phi3Model : public DecoderModel<Phi3Config, Phi3DecoderLayer>, public Pretrained<Phi3Model> {
 public:
  using DecoderModel::DecoderModel;
};

class Phi3ForCausalLM : public ForCausalLM<Phi3Model>, public Pretrained<Phi3ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Phi3ForSequenceClassification : public ForSequenceClassification<Phi3Model>,
                                      public Pretrained<Phi3ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
