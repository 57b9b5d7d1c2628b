// SmolLM3: Llama with layers that have no rotary embedding.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/smollm3/config.h"

namespace easydel {

class SmolLM3DecoderLayer : public DecoderBlock {
 public:
  SmolLM3DecoderLayer(const SmolLM3Config& config, int64_t layer_idx);
};

class SmolLM3Model : public DecoderModel<SmolLM3Config, SmolLM3DecoderLayer>, public Pretrained<SmolLM3Model> {
 public:
  using DecoderModel::DecoderModel;
};

class SmolLM3ForCausalLM : public ForCausalLM<SmolLM3Model>, public Pretrained<SmolLM3ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class SmolLM3ForSequenceClassification : public ForSequenceClassification<SmolLM3Model>,
                                         public Pretrained<SmolLM3ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
