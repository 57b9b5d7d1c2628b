// Seed-OSS: Llama with biases on queries, keys and values, and dropout.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/seed_oss/config.h"

namespace easydel {

class SeedOssDecoderLayer : public DecoderBlock {
 public:
  SeedOssDecoderLayer(const SeedOssConfig& config, int64_t layer_idx);
};

class SeedOssModel : public DecoderModel<SeedOssConfig, SeedOssDecoderLayer>, public Pretrained<SeedOssModel> {
 public:
  using DecoderModel::DecoderModel;
};

class SeedOssForCausalLM : public ForCausalLM<SeedOssModel>, public Pretrained<SeedOssForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class SeedOssForSequenceClassification : public ForSequenceClassification<SeedOssModel>,
                                         public Pretrained<SeedOssForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
