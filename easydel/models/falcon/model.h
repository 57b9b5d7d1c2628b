// Falcon: layer norms, q, k and v in one matrix, a plain MLP parallel to the attention or behind it.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/falcon/config.h"

namespace easydel {

class FalconDecoderLayer : public DecoderBlock {
 public:
  FalconDecoderLayer(const FalconConfig& config, int64_t layer_idx);
};

class FalconModel : public DecoderModel<FalconConfig, FalconDecoderLayer>, public Pretrained<FalconModel> {
 public:
  explicit FalconModel(const FalconConfig& config);
};

class FalconForCausalLM : public ForCausalLM<FalconModel>, public Pretrained<FalconForCausalLM> {
 public:
  explicit FalconForCausalLM(const FalconConfig& config) : ForCausalLM(config, "transformer") {}
};

class FalconForSequenceClassification : public ForSequenceClassification<FalconModel>,
                                        public Pretrained<FalconForSequenceClassification> {
 public:
  explicit FalconForSequenceClassification(const FalconConfig& config)
      : ForSequenceClassification(config, "transformer") {}
};

}  // namespace easydel
