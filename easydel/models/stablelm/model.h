// StableLM: Llama with layer norms; in the larger ones attention and MLP side by side.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/stablelm/config.h"

namespace easydel {

class StableLmDecoderLayer : public DecoderBlock {
 public:
  StableLmDecoderLayer(const StableLmConfig& config, int64_t layer_idx);
};

class StableLmModel : public DecoderModel<StableLmConfig, StableLmDecoderLayer>, public Pretrained<StableLmModel> {
 public:
  explicit StableLmModel(const StableLmConfig& config);
};

class StableLmForCausalLM : public ForCausalLM<StableLmModel>, public Pretrained<StableLmForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class StableLmForSequenceClassification : public ForSequenceClassification<StableLmModel>,
                                          public Pretrained<StableLmForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
