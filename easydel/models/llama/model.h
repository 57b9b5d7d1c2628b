// Llama: rotary grouped attention, gated feed-forward, RMS norms.
#pragma once

#include "easydel/infra/decoder.h"
#include "easydel/models/llama/config.h"

namespace easydel {

class LlamaDecoderLayer : public DecoderBlock {
 public:
  LlamaDecoderLayer(const LlamaConfig& config, int64_t layer_idx);
};

class LlamaModel : public DecoderModel<LlamaConfig, LlamaDecoderLayer> {
 public:
  using DecoderModel::DecoderModel;
};

class LlamaForCausalLM : public ForCausalLM<LlamaModel> {
 public:
  using ForCausalLM::ForCausalLM;
};

class LlamaForSequenceClassification : public ForSequenceClassification<LlamaModel> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
