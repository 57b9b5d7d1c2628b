// EXAONE 4: norms behind attention and MLP, and rotary embeddings only in layers with a window.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Exaone4Config : Config<Exaone4Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "exaone4";

  Exaone4Config();

  Json sliding_window_pattern = 4;  // a period, or letters such as LLLG; layer_types says the same

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
