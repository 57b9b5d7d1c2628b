// Ministral: Mistral with a kind for each layer.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct MinistralConfig : Config<MinistralConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "ministral";

  MinistralConfig();

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
