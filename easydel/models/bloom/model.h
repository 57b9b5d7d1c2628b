// BLOOM: q, k and v of each head together in one matrix, ALiBi, and a norm of the embeddings.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/bloom/config.h"

namespace easydel {

class BloomBlock : public DecoderBlock {
 public:
  BloomBlock(const BloomConfig& config, int64_t layer_idx);
};

class BloomModel : public DecoderModel<BloomConfig, BloomBlock>, public Pretrained<BloomModel> {
 public:
  explicit BloomModel(const BloomConfig& config);
};

class BloomForCausalLM : public ForCausalLM<BloomModel>, public Pretrained<BloomForCausalLM> {
 public:
  explicit BloomForCausalLM(const BloomConfig& config) : ForCausalLM(config, "transformer") {}
};

class BloomForSequenceClassification : public ForSequenceClassification<BloomModel>,
                                       public Pretrained<BloomForSequenceClassification> {
 public:
  explicit BloomForSequenceClassification(const BloomConfig& config)
      : ForSequenceClassification(config, "transformer") {}
};

}  // namespace easydel
