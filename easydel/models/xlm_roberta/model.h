// XLMRoberta: the classes of BERT with its config.
#pragma once

#include "easydel/models/bert/model.h"
#include "easydel/models/xlm_roberta/config.h"

namespace easydel {

class XLMRobertaModel : public OfConfig<BertEncoder, XLMRobertaConfig>, public Pretrained<XLMRobertaModel> {
 public:
  using OfConfig::OfConfig;
};
class XLMRobertaForMaskedLM : public OfConfig<BertMaskedLM, XLMRobertaConfig>,
                              public Pretrained<XLMRobertaForMaskedLM> {
 public:
  using OfConfig::OfConfig;
};
class XLMRobertaForTokenClassification : public OfConfig<BertTokenClassification, XLMRobertaConfig>,
                                         public Pretrained<XLMRobertaForTokenClassification> {
 public:
  using OfConfig::OfConfig;
};
class XLMRobertaForQuestionAnswering : public OfConfig<BertQuestionAnswering, XLMRobertaConfig>,
                                       public Pretrained<XLMRobertaForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class XLMRobertaForSequenceClassification : public OfConfig<BertSequenceClassification, XLMRobertaConfig>,
                                            public Pretrained<XLMRobertaForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel
