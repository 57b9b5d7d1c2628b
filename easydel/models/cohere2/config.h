// Command R7B and Command A: windows, and rotary embeddings in the layers that have one alone.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Cohere2Config : Config<Cohere2Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "cohere2";

  Cohere2Config();

  double logit_scale = 0.0625;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

}  // namespace easydel
