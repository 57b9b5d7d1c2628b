// Phi 1, 1.5 and 2: a plain MLP parallel to the attention, which read one norm.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/phi/config.h"

namespace easydel {

class PhiDecoderLayer : public DecoderBlock {
 public:
  PhiDecoderLayer(const PhiConfig& config, int64_t layer_idx);
};

class PhiModel : public DecoderModel<PhiConfig, PhiDecoderLayer>, public Pretrained<PhiModel> {
 public:
  explicit PhiModel(const PhiConfig& config);
};

class PhiForCausalLM : public ForCausalLM<PhiModel>, public Pretrained<PhiForCausalLM> {
 public:
  explicit PhiForCausalLM(const PhiConfig& config) : ForCausalLM(config, "model", /*head_bias=*/true) {}
};

class PhiForSequenceClassification : public ForSequenceClassification<PhiModel>,
                                     public Pretrained<PhiForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
