// The text model of Qwen3.5: attention with gates in some layers, Gated DeltaNet in the others, and an MLP in each.
#pragma once

#include "easydel/models/qwen3_5/config.h"
#include "easydel/models/qwen3_next/model.h"

namespace easydel {

class Qwen3_5DecoderLayer : public HybridDecoderLayer {
 public:
  Qwen3_5DecoderLayer(const Qwen3_5TextConfig& config, int64_t layer_idx);
};

class Qwen3_5TextModel : public DecoderModel<Qwen3_5TextConfig, Qwen3_5DecoderLayer>,
                         public Pretrained<Qwen3_5TextModel> {
 public:
  explicit Qwen3_5TextModel(const Qwen3_5TextConfig& c) : DecoderModel(c, {.norm = zero_centered_norm(c)}) {}
};

class Qwen3_5ForCausalLM : public ForCausalLM<Qwen3_5TextModel>, public Pretrained<Qwen3_5ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Qwen3_5TextForSequenceClassification : public ForSequenceClassification<Qwen3_5TextModel>,
                                             public Pretrained<Qwen3_5TextForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
