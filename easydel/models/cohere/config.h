// Command R: attention and MLP side by side, layer norms without a bias, scaled logits.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct CohereConfig : Config<CohereConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "cohere";

  CohereConfig();

  double logit_scale = 0.0625;
  std::optional<bool> use_qk_norm = false;

  void fields(FieldVisitor& v) override;
};

}  // namespace easydel
