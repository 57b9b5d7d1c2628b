// GPT-NeoX: q, k and v of each head together in one matrix, layer norms, a plain MLP parallel to the attention.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/gpt_neox/config.h"

namespace easydel {

class GPTNeoXLayer : public DecoderBlock {
 public:
  GPTNeoXLayer(const GPTNeoXConfig& config, int64_t layer_idx);
};

class GPTNeoXModel : public DecoderModel<GPTNeoXConfig, GPTNeoXLayer>, public Pretrained<GPTNeoXModel> {
 public:
  explicit GPTNeoXModel(const GPTNeoXConfig& config);
};

class GPTNeoXForCausalLM : public ForCausalLM<GPTNeoXModel>, public Pretrained<GPTNeoXForCausalLM> {
 public:
  explicit GPTNeoXForCausalLM(const GPTNeoXConfig& config);
};

class GPTNeoXForSequenceClassification : public ForSequenceClassification<GPTNeoXModel>,
                                         public Pretrained<GPTNeoXForSequenceClassification> {
 public:
  explicit GPTNeoXForSequenceClassification(const GPTNeoXConfig& config)
      : ForSequenceClassification(config, "gpt_neox") {}
};

}  // namespace easydel
