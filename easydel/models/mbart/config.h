// mBART: BART's layers with norms in front, for many languages.
#pragma once

#include "easydel/models/bart/config.h"

namespace easydel {

struct MBartConfig : Config<MBartConfig, BartFamilyConfig> {
  static constexpr std::string_view kModelType = "mbart";
  bool has_post_norm() const override { return false; }
  bool wraps_last_token() const override { return true; }  // a language's token ends a row and begins the decoder's
};

}  // namespace easydel
