// Decoders that give each token a class. Process rewards are trained on them.
#pragma once

#include "easydel/models/gemma/model.h"
#include "easydel/models/gemma2/model.h"
#include "easydel/models/llama/model.h"
#include "easydel/models/mistral/model.h"
#include "easydel/models/mixtral/model.h"
#include "easydel/models/phi3/model.h"
#include "easydel/models/qwen2/model.h"
#include "easydel/models/qwen3/model.h"
#include "easydel/models/token_classifier/head.h"

namespace easydel {

class GemmaForTokenClassification : public ForTokenClassification<GemmaModel>,
                                    public Pretrained<GemmaForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class Gemma2ForTokenClassification : public ForTokenClassification<Gemma2Model>,
                                     public Pretrained<Gemma2ForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class LlamaForTokenClassification : public ForTokenClassification<LlamaModel>,
                                    public Pretrained<LlamaForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class MistralForTokenClassification : public ForTokenClassification<MistralModel>,
                                      public Pretrained<MistralForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class MixtralForTokenClassification : public ForTokenClassification<MixtralModel>,
                                      public Pretrained<MixtralForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class Phi3ForTokenClassification : public ForTokenClassification<Phi3Model>,
                                   public Pretrained<Phi3ForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class Qwen2ForTokenClassification : public ForTokenClassification<Qwen2Model>,
                                    public Pretrained<Qwen2ForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

class Qwen3ForTokenClassification : public ForTokenClassification<Qwen3Model>,
                                    public Pretrained<Qwen3ForTokenClassification> {
 public:
  using ForTokenClassification::ForTokenClassification;
};

}  // namespace easydel
