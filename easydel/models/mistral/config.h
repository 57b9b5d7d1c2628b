// Mistral 7B and what followed it: Llama with a window over the keys.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct MistralConfig : Config<MistralConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "mistral";

  MistralConfig();

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
