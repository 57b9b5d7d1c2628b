// DeepSeek V3: V2 with sigmoid scores, a bias that evens out the experts, and groups of experts.
#pragma once

#include "easydel/infra/decoder/latent_decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/deepseek_v3/config.h"

namespace easydel {

class DeepseekV3DecoderLayer : public MoeDecoderLayer<LatentAttention, LatentAttentionSpec> {
 public:
  DeepseekV3DecoderLayer(const DeepseekV3Config& config, int64_t layer_idx);
};

class DeepseekV3Model : public DecoderModel<DeepseekV3Config, DeepseekV3DecoderLayer>,
                        public Pretrained<DeepseekV3Model> {
 public:
  explicit DeepseekV3Model(const DeepseekV3Config& config);
};

class DeepseekV3ForCausalLM : public ForCausalLM<DeepseekV3Model>, public Pretrained<DeepseekV3ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class DeepseekV3ForSequenceClassification : public ForSequenceClassification<DeepseekV3Model>,
                                            public Pretrained<DeepseekV3ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
