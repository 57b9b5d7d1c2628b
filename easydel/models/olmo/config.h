// OLMo: norms without weights, and projections that may be clipped.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct OlmoConfig : Config<OlmoConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "olmo";

  OlmoConfig();

  std::optional<double> clip_qkv;

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
