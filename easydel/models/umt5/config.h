// UMT5: T5's layers with a table of relative positions in each.
#pragma once

#include "easydel/models/t5/config.h"

namespace easydel {

struct UMT5Config : Config<UMT5Config, T5FamilyConfig> {
  static constexpr std::string_view kModelType = "umt5";
  UMT5Config();
  bool has_bias_in_each_layer() const override { return true; }
};

}  // namespace easydel
