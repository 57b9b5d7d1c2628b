// GLM-4 9B: neighbours turn together in half of each head, and gate and up are one matrix.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

// What GLM and GLM-4 0414 share, which is all of it.
struct GlmConfigBase : DecoderConfig {
  GlmConfigBase();

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

struct GlmConfig : Config<GlmConfig, GlmConfigBase> {
  static constexpr std::string_view kModelType = "glm";
};

}  // namespace easydel
