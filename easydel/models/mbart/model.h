// mBART: the classes of BART with its config.
#pragma once

#include "easydel/models/bart/model.h"
#include "easydel/models/mbart/config.h"

namespace easydel {

class MBartModel : public OfConfig<BartStacks, MBartConfig>, public Pretrained<MBartModel> {
 public:
  using OfConfig::OfConfig;
};
class MBartForConditionalGeneration : public OfConfig<BartLanguageModel, MBartConfig>,
                                      public Pretrained<MBartForConditionalGeneration> {
 public:
  using OfConfig::OfConfig;
};
class MBartForQuestionAnswering : public OfConfig<BartQuestionAnswering, MBartConfig>,
                                  public Pretrained<MBartForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class MBartForSequenceClassification : public OfConfig<BartSequenceClassification, MBartConfig>,
                                       public Pretrained<MBartForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel
