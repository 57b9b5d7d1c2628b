// Roberta: BERT's layers, with positions that skip padding.
#pragma once

#include "easydel/models/bert/config.h"

namespace easydel {

struct RobertaConfig : Config<RobertaConfig, BertFamilyConfig> {
  static constexpr std::string_view kModelType = "roberta";
  RobertaConfig();
  bool is_roberta() const override { return true; }
};

}  // namespace easydel
