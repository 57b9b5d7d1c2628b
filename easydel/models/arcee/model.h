// Arcee AFM: Llama with a plain MLP.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/arcee/config.h"

namespace easydel {

class ArceeDecoderLayer : public DecoderBlock {
 public:
  ArceeDecoderLayer(const ArceeConfig& config, int64_t layer_idx);
};

class ArceeModel : public DecoderModel<ArceeConfig, ArceeDecoderLayer>, public Pretrained<ArceeModel> {
 public:
  using DecoderModel::DecoderModel;
};

class ArceeForCausalLM : public ForCausalLM<ArceeModel>, public Pretrained<ArceeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class ArceeForSequenceClassification : public ForSequenceClassification<ArceeModel>,
                                       public Pretrained<ArceeForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
