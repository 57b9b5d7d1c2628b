// Qwen3 MoE: attention with norms on each head, and a router with experts behind it in all layers or some.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/qwen3_moe/config.h"

namespace easydel {

class Qwen3MoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  Qwen3MoeDecoderLayer(const Qwen3MoeConfig& config, int64_t layer_idx);
};

class Qwen3MoeModel : public DecoderModel<Qwen3MoeConfig, Qwen3MoeDecoderLayer>, public Pretrained<Qwen3MoeModel> {
 public:
  using DecoderModel::DecoderModel;
};

class Qwen3MoeForCausalLM : public ForCausalLM<Qwen3MoeModel>, public Pretrained<Qwen3MoeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Qwen3MoeForSequenceClassification : public ForSequenceClassification<Qwen3MoeModel>,
                                          public Pretrained<Qwen3MoeForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
