// Pegasus: the classes of BART with its config.
#pragma once

#include "easydel/models/bart/model.h"
#include "easydel/models/pegasus/config.h"

namespace easydel {

class PegasusModel : public OfConfig<BartStacks, PegasusConfig>, public Pretrained<PegasusModel> {
 public:
  using OfConfig::OfConfig;
};
class PegasusForConditionalGeneration : public OfConfig<BartLanguageModel, PegasusConfig>,
                                        public Pretrained<PegasusForConditionalGeneration> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel
