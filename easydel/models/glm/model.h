// GLM-4 9B: Llama with biases on queries, keys and values.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/glm/config.h"

namespace easydel {

BlockSpec glm_block(const GlmConfigBase& config, int64_t layer_idx);

class GlmDecoderLayer : public DecoderBlock {
 public:
  GlmDecoderLayer(const GlmConfig& config, int64_t layer_idx);
};

class GlmModel : public DecoderModel<GlmConfig, GlmDecoderLayer>, public Pretrained<GlmModel> {
 public:
  using DecoderModel::DecoderModel;
};

class GlmForCausalLM : public ForCausalLM<GlmModel>, public Pretrained<GlmForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class GlmForSequenceClassification : public ForSequenceClassification<GlmModel>,
                                     public Pretrained<GlmForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
