// Qwen2 MoE: a router with experts in all layers or some, and a gated expert for every token.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/qwen2_moe/config.h"

namespace easydel {

class Qwen2MoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  Qwen2MoeDecoderLayer(const Qwen2MoeConfig& config, int64_t layer_idx);
};

class Qwen2MoeModel : public DecoderModel<Qwen2MoeConfig, Qwen2MoeDecoderLayer>, public Pretrained<Qwen2MoeModel> {
 public:
  using DecoderModel::DecoderModel;
};

class Qwen2MoeForCausalLM : public ForCausalLM<Qwen2MoeModel>, public Pretrained<Qwen2MoeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Qwen2MoeForSequenceClassification : public ForSequenceClassification<Qwen2MoeModel>,
                                          public Pretrained<Qwen2MoeForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
