// MT5: T5's layers for many languages.
#pragma once

#include "easydel/models/t5/config.h"

namespace easydel {

struct MT5Config : Config<MT5Config, T5FamilyConfig> {
  static constexpr std::string_view kModelType = "mt5";
  MT5Config();
};

}  // namespace easydel
