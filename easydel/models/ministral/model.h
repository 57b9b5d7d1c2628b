// Ministral: Llama with windows.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/ministral/config.h"

namespace easydel {

class MinistralDecoderLayer : public DecoderBlock {
 public:
  MinistralDecoderLayer(const MinistralConfig& config, int64_t layer_idx);
};

class MinistralModel : public DecoderModel<MinistralConfig, MinistralDecoderLayer>, public Pretrained<MinistralModel> {
 public:
  using DecoderModel::DecoderModel;
};

class MinistralForCausalLM : public ForCausalLM<MinistralModel>, public Pretrained<MinistralForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class MinistralForSequenceClassification : public ForSequenceClassification<MinistralModel>,
                                           public Pretrained<MinistralForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
