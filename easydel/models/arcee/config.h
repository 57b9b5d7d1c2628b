// Arcee AFM: Llama with squared ReLU and no gate.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct ArceeConfig : Config<ArceeConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "arcee";

  ArceeConfig();

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
