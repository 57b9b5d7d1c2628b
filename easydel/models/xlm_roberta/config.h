// XLMRoberta: BERT's layers, with positions that skip padding.
#pragma once

#include "easydel/models/bert/config.h"

namespace easydel {

struct XLMRobertaConfig : Config<XLMRobertaConfig, BertFamilyConfig> {
  static constexpr std::string_view kModelType = "xlm-roberta";
  XLMRobertaConfig();
  bool is_roberta() const override { return true; }
};

}  // namespace easydel
