// GLM-4 0414: GLM with norms behind attention and MLP too.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/glm4/config.h"

namespace easydel {

class Glm4DecoderLayer : public DecoderBlock {
 public:
  Glm4DecoderLayer(const Glm4Config& config, int64_t layer_idx);
};

class Glm4Model : public DecoderModel<Glm4Config, Glm4DecoderLayer>, public Pretrained<Glm4Model> {
 public:
  using DecoderModel::DecoderModel;
};

class Glm4ForCausalLM : public ForCausalLM<Glm4Model>, public Pretrained<Glm4ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Glm4ForSequenceClassification : public ForSequenceClassification<Glm4Model>,
                                      public Pretrained<Glm4ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
