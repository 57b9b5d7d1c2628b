// Qwen1.5, Qwen2 and Qwen2.5: Llama with biases on q, k and v, and windows in the upper layers where they are asked
// for.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Qwen2Config : Config<Qwen2Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "qwen2";

  Qwen2Config();

  bool use_sliding_window = false;
  int64_t max_window_layers = 28;  // the layers below have full attention

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
