// MPT: ALiBi, q, k and v in one matrix, layer norms without biases, a plain MLP.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/mpt/config.h"

namespace easydel {

class MptBlock : public DecoderBlock {
 public:
  MptBlock(const MptConfig& config, int64_t layer_idx);
};

class MptModel : public DecoderModel<MptConfig, MptBlock>, public Pretrained<MptModel> {
 public:
  explicit MptModel(const MptConfig& config);
};

class MptForCausalLM : public ForCausalLM<MptModel>, public Pretrained<MptForCausalLM> {
 public:
  explicit MptForCausalLM(const MptConfig& config) : ForCausalLM(config, "transformer") {}
};

class MptForSequenceClassification : public ForSequenceClassification<MptModel>,
                                     public Pretrained<MptForSequenceClassification> {
 public:
  explicit MptForSequenceClassification(const MptConfig& config) : ForSequenceClassification(config, "transformer") {}
};

}  // namespace easydel
