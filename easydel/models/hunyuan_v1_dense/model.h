// Hunyuan dense: Llama with norms on each head of queries and keys, behind the rotation.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/hunyuan_v1_dense/config.h"

namespace easydel {

class HunYuanDenseV1DecoderLayer : public DecoderBlock {
 public:
  HunYuanDenseV1DecoderLayer(const HunYuanDenseV1Config& config, int64_t layer_idx);
};

class HunYuanDenseV1Model : public DecoderModel<HunYuanDenseV1Config, HunYuanDenseV1DecoderLayer>,
                            public Pretrained<HunYuanDenseV1Model> {
 public:
  using DecoderModel::DecoderModel;
};

class HunYuanDenseV1ForCausalLM : public ForCausalLM<HunYuanDenseV1Model>,
                                  public Pretrained<HunYuanDenseV1ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class HunYuanDenseV1ForSequenceClassification : public ForSequenceClassification<HunYuanDenseV1Model>,
                                                public Pretrained<HunYuanDenseV1ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
