// Mistral: Llama whose layers look back over a window.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/mistral/config.h"

namespace easydel {

class MistralDecoderLayer : public DecoderBlock {
 public:
  MistralDecoderLayer(const MistralConfig& config, int64_t layer_idx);
};

class MistralModel : public DecoderModel<MistralConfig, MistralDecoderLayer>, public Pretrained<MistralModel> {
 public:
  using DecoderModel::DecoderModel;
};

class MistralForCausalLM : public ForCausalLM<MistralModel>, public Pretrained<MistralForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class MistralForSequenceClassification : public ForSequenceClassification<MistralModel>,
                                         public Pretrained<MistralForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
