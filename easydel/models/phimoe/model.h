// Phi-3.5 MoE: Mixtral with layer norms and a router that weighs two experts one by one.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/phimoe/config.h"

namespace easydel {

class PhimoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  PhimoeDecoderLayer(const PhimoeConfig& config, int64_t layer_idx);
};

class PhimoeModel : public DecoderModel<PhimoeConfig, PhimoeDecoderLayer>, public Pretrained<PhimoeModel> {
 public:
  explicit PhimoeModel(const PhimoeConfig& config);
  std::string torch_path(const std::string& path) const override;
};

class PhimoeForCausalLM : public ForCausalLM<PhimoeModel>, public Pretrained<PhimoeForCausalLM> {
 public:
  explicit PhimoeForCausalLM(const PhimoeConfig& config)
      : ForCausalLM(config, "model", /*head_bias=*/config.lm_head_bias) {}
};

class PhimoeForSequenceClassification : public ForSequenceClassification<PhimoeModel>,
                                        public Pretrained<PhimoeForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
