// OLMo: Llama with layer norms that have no weights.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/olmo/config.h"

namespace easydel {

class OlmoDecoderLayer : public DecoderBlock {
 public:
  OlmoDecoderLayer(const OlmoConfig& config, int64_t layer_idx);
};

class OlmoModel : public DecoderModel<OlmoConfig, OlmoDecoderLayer>, public Pretrained<OlmoModel> {
 public:
  explicit OlmoModel(const OlmoConfig& config);
};

class OlmoForCausalLM : public ForCausalLM<OlmoModel>, public Pretrained<OlmoForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class OlmoForSequenceClassification : public ForSequenceClassification<OlmoModel>,
                                      public Pretrained<OlmoForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
