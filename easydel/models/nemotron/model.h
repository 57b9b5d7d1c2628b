// Nemotron: Llama with layer norms and a plain MLP.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/nemotron/config.h"

namespace easydel {

class NemotronDecoderLayer : public DecoderBlock {
 public:
  NemotronDecoderLayer(const NemotronConfig& config, int64_t layer_idx);
};

class NemotronModel : public DecoderModel<NemotronConfig, NemotronDecoderLayer>, public Pretrained<NemotronModel> {
 public:
  explicit NemotronModel(const NemotronConfig& config);
};

class NemotronForCausalLM : public ForCausalLM<NemotronModel>, public Pretrained<NemotronForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class NemotronForSequenceClassification : public ForSequenceClassification<NemotronModel>,
                                          public Pretrained<NemotronForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
