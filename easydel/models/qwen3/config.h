// Qwen3: dense models with normed queries and keys.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Qwen3Config : Config<Qwen3Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "qwen3";

  Qwen3Config();

  bool use_sliding_window = false;
  int64_t max_window_layers = 28;  // the layers below have full attention

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
