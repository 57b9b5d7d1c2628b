// Roberta: the classes of BERT with its config.
#pragma once

#include "easydel/models/bert/model.h"
#include "easydel/models/roberta/config.h"

namespace easydel {

class RobertaModel : public OfConfig<BertEncoder, RobertaConfig>, public Pretrained<RobertaModel> {
 public:
  using OfConfig::OfConfig;
};
class RobertaForMaskedLM : public OfConfig<BertMaskedLM, RobertaConfig>, public Pretrained<RobertaForMaskedLM> {
 public:
  using OfConfig::OfConfig;
};
class RobertaForTokenClassification : public OfConfig<BertTokenClassification, RobertaConfig>,
                                      public Pretrained<RobertaForTokenClassification> {
 public:
  using OfConfig::OfConfig;
};
class RobertaForQuestionAnswering : public OfConfig<BertQuestionAnswering, RobertaConfig>,
                                    public Pretrained<RobertaForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class RobertaForSequenceClassification : public OfConfig<BertSequenceClassification, RobertaConfig>,
                                         public Pretrained<RobertaForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel
