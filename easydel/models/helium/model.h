// Helium: Llama with interleaved rotary embeddings.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/helium/config.h"

namespace easydel {

class HeliumDecoderLayer : public DecoderBlock {
 public:
  HeliumDecoderLayer(const HeliumConfig& config, int64_t layer_idx);
};

class HeliumModel : public DecoderModel<HeliumConfig, HeliumDecoderLayer>, public Pretrained<HeliumModel> {
 public:
  explicit HeliumModel(const HeliumConfig& config);
};

class HeliumForCausalLM : public ForCausalLM<HeliumModel>, public Pretrained<HeliumForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class HeliumForSequenceClassification : public ForSequenceClassification<HeliumModel>,
                                        public Pretrained<HeliumForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
