// gpt-oss: sinks in the attention, and experts that are stored as they are computed with.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/gpt_oss/config.h"

namespace easydel {

class GptOssDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  GptOssDecoderLayer(const GptOssConfig& config, int64_t layer_idx);
};

class GptOssModel : public DecoderModel<GptOssConfig, GptOssDecoderLayer>, public Pretrained<GptOssModel> {
 public:
  explicit GptOssModel(const GptOssConfig& config);
};

class GptOssForCausalLM : public ForCausalLM<GptOssModel>, public Pretrained<GptOssForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class GptOssForSequenceClassification : public ForSequenceClassification<GptOssModel>,
                                        public Pretrained<GptOssForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
