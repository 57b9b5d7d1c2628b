// Gemma: embeddings times the root of their width, and norms that multiply by one plus their weight.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/gemma/config.h"

namespace easydel {

class GemmaDecoderLayer : public DecoderBlock {
 public:
  GemmaDecoderLayer(const GemmaConfig& config, int64_t layer_idx);
};

class GemmaModel : public DecoderModel<GemmaConfig, GemmaDecoderLayer>, public Pretrained<GemmaModel> {
 public:
  explicit GemmaModel(const GemmaConfig& config);
};

class GemmaForCausalLM : public ForCausalLM<GemmaModel>, public Pretrained<GemmaForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class GemmaForSequenceClassification : public ForSequenceClassification<GemmaModel>,
                                       public Pretrained<GemmaForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
