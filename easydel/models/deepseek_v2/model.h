// DeepSeek V2: attention over a latent, and experts of which some are shared by all tokens.
#pragma once

#include "easydel/infra/decoder/latent_decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/deepseek_v2/config.h"

namespace easydel {

class DeepseekV2DecoderLayer : public MoeDecoderLayer<LatentAttention, LatentAttentionSpec> {
 public:
  DeepseekV2DecoderLayer(const DeepseekV2Config& config, int64_t layer_idx);
};

class DeepseekV2Model : public DecoderModel<DeepseekV2Config, DeepseekV2DecoderLayer>,
                        public Pretrained<DeepseekV2Model> {
 public:
  using DecoderModel::DecoderModel;
};

class DeepseekV2ForCausalLM : public ForCausalLM<DeepseekV2Model>, public Pretrained<DeepseekV2ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class DeepseekV2ForSequenceClassification : public ForSequenceClassification<DeepseekV2Model>,
                                            public Pretrained<DeepseekV2ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
