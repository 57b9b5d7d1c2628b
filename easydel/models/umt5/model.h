// UMT5: the classes of T5 with its config.
#pragma once

#include "easydel/models/t5/model.h"
#include "easydel/models/umt5/config.h"

namespace easydel {

class UMT5Model : public OfConfig<T5Stacks, UMT5Config>, public Pretrained<UMT5Model> {
 public:
  using OfConfig::OfConfig;
};
class UMT5EncoderModel : public OfConfig<T5EncoderStack, UMT5Config>, public Pretrained<UMT5EncoderModel> {
 public:
  using OfConfig::OfConfig;
};
class UMT5ForConditionalGeneration : public OfConfig<T5LanguageModel, UMT5Config>,
                                     public Pretrained<UMT5ForConditionalGeneration> {
 public:
  using OfConfig::OfConfig;
};
class UMT5ForQuestionAnswering : public OfConfig<T5QuestionAnswering, UMT5Config>,
                                 public Pretrained<UMT5ForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class UMT5ForSequenceClassification : public OfConfig<T5SequenceClassification, UMT5Config>,
                                      public Pretrained<UMT5ForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};
class UMT5ForTokenClassification : public OfConfig<T5TokenClassification, UMT5Config>,
                                   public Pretrained<UMT5ForTokenClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel
