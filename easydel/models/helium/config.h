// Helium: Llama whose neighbours turn together.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct HeliumConfig : Config<HeliumConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "helium";

  HeliumConfig();

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
