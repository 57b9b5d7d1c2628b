// Gemma: wide heads, scaled embeddings, norms that multiply by one plus their weight.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct GemmaConfig : Config<GemmaConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "gemma";

  GemmaConfig();

  std::optional<bool> use_bidirectional_attention;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
