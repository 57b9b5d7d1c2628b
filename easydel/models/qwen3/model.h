// Qwen3: Llama with an RMS norm on each head of q and k.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/qwen3/config.h"

namespace easydel {

class Qwen3DecoderLayer : public DecoderBlock {
 public:
  Qwen3DecoderLayer(const Qwen3Config& config, int64_t layer_idx);
};

class Qwen3Model : public DecoderModel<Qwen3Config, Qwen3DecoderLayer>, public Pretrained<Qwen3Model> {
 public:
  using DecoderModel::DecoderModel;
};

class Qwen3ForCausalLM : public ForCausalLM<Qwen3Model>, public Pretrained<Qwen3ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Qwen3ForSequenceClassification : public ForSequenceClassification<Qwen3Model>,
                                       public Pretrained<Qwen3ForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
