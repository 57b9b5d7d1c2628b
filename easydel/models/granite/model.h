// Granite: Llama whose embeddings, scores, residual branches and logits have factors.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/granite/config.h"

namespace easydel {

class GraniteDecoderLayer : public DecoderBlock {
 public:
  GraniteDecoderLayer(const GraniteConfig& config, int64_t layer_idx);
};

class GraniteModel : public DecoderModel<GraniteConfig, GraniteDecoderLayer>, public Pretrained<GraniteModel> {
 public:
  explicit GraniteModel(const GraniteConfig& config);
};

class GraniteForCausalLM : public ForCausalLM<GraniteModel>, public Pretrained<GraniteForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

}  // namespace easydel
