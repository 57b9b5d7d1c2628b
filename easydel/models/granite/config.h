// Granite 3: Llama with four multipliers.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct GraniteConfig : Config<GraniteConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "granite";

  GraniteConfig();

  double embedding_multiplier = 1.0;  // of what enters the first layer
  double attention_multiplier = 1.0;  // of the scores, in place of 1 / sqrt(head_dim)
  double residual_multiplier = 1.0;   // of what attention and MLP add
  double logits_scaling = 1.0;        // divides the logits

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
