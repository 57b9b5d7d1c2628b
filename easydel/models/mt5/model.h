// MT5: the classes of T5 with its config.
#pragma once

#include "easydel/models/mt5/config.h"
#include "easydel/models/t5/model.h"

namespace easydel {

class MT5Model : public OfConfig<T5Stacks, MT5Config>, public Pretrained<MT5Model> {
 public:
  using OfConfig::OfConfig;
};
class MT5EncoderModel : public OfConfig<T5EncoderStack, MT5Config>, public Pretrained<MT5EncoderModel> {
 public:
  using OfConfig::OfConfig;
};
class MT5ForConditionalGeneration : public OfConfig<T5LanguageModel, MT5Config>,
                                    public Pretrained<MT5ForConditionalGeneration> {
 public:
  using OfConfig::OfConfig;
};
class MT5ForQuestionAnswering : public OfConfig<T5QuestionAnswering, MT5Config>,
                                public Pretrained<MT5ForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class MT5ForSequenceClassification : public OfConfig<T5SequenceClassification, MT5Config>,
                                     public Pretrained<MT5ForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};
class MT5ForTokenClassification : public OfConfig<T5TokenClassification, MT5Config>,
                                  public Pretrained<MT5ForTokenClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel
