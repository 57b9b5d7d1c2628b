// GPT-J: a plain MLP parallel to the attention, which read one norm.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/gptj/config.h"

namespace easydel {

class GPTJBlock : public DecoderBlock {
 public:
  GPTJBlock(const GPTJConfig& config, int64_t layer_idx);
};

class GPTJModel : public DecoderModel<GPTJConfig, GPTJBlock>, public Pretrained<GPTJModel> {
 public:
  explicit GPTJModel(const GPTJConfig& config);

 protected:
  std::vector<RopeTableSpec> rope_tables() const override;
};

class GPTJForCausalLM : public ForCausalLM<GPTJModel>, public Pretrained<GPTJForCausalLM> {
 public:
  explicit GPTJForCausalLM(const GPTJConfig& config) : ForCausalLM(config, "transformer", /*head_bias=*/true) {}
};

class GPTJForSequenceClassification : public ForSequenceClassification<GPTJModel>,
                                      public Pretrained<GPTJForSequenceClassification> {
 public:
  explicit GPTJForSequenceClassification(const GPTJConfig& config) : ForSequenceClassification(config, "transformer") {}
};

}  // namespace easydel
