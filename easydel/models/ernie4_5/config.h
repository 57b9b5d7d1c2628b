// ERNIE 4.5 dense: Llama whose neighbours turn together.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Ernie4_5Config : Config<Ernie4_5Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "ernie4_5";

  Ernie4_5Config();

  bool use_bias = false;  // of every projection

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
