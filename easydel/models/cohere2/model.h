// Command R7B and Command A: Command R with windows; layers without one have no rotary embedding.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/cohere2/config.h"

namespace easydel {

class Cohere2DecoderLayer : public DecoderBlock {
 public:
  Cohere2DecoderLayer(const Cohere2Config& config, int64_t layer_idx);
};

class Cohere2Model : public DecoderModel<Cohere2Config, Cohere2DecoderLayer>, public Pretrained<Cohere2Model> {
 public:
  explicit Cohere2Model(const Cohere2Config& config);
};

class Cohere2ForCausalLM : public ForCausalLM<Cohere2Model>, public Pretrained<Cohere2ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

}  // namespace easydel
