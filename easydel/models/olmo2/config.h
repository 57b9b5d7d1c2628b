// OLMo 2: norms behind each block in place of before it, and over all of q and k.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Olmo2Config : Config<Olmo2Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "olmo2";

  Olmo2Config();

  void fields(FieldVisitor& v) override;
};

}  // namespace easydel
