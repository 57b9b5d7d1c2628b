// Command R: attention and MLP read one norm side by side, and neighbours of a head turn together.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/cohere/config.h"

namespace easydel {

class CohereDecoderLayer : public DecoderBlock {
 public:
  CohereDecoderLayer(const CohereConfig& config, int64_t layer_idx);
};

class CohereModel : public DecoderModel<CohereConfig, CohereDecoderLayer>, public Pretrained<CohereModel> {
 public:
  explicit CohereModel(const CohereConfig& config);
};

class CohereForCausalLM : public ForCausalLM<CohereModel>, public Pretrained<CohereForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

}  // namespace easydel
