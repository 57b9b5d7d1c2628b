// OLMo 3: norms behind attention and MLP, norms over all queries and all keys, and windows.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/olmo3/config.h"

namespace easydel {

class Olmo3DecoderLayer : public DecoderBlock {
 public:
  Olmo3DecoderLayer(const Olmo3Config& config, int64_t layer_idx);
};

class Olmo3Model : public DecoderModel<Olmo3Config, Olmo3DecoderLayer>, public Pretrained<Olmo3Model> {
 public:
  explicit Olmo3Model(const Olmo3Config& config);

 protected:
  std::vector<RopeTableSpec> rope_tables() const override;
};

class Olmo3ForCausalLM : public ForCausalLM<Olmo3Model>, public Pretrained<Olmo3ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Olmo3ForSequenceClassification : public ForSequenceClassification<Olmo3Model>,
                                       public Pretrained<Olmo3ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
