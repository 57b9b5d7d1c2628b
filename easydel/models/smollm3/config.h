// SmolLM3: every fourth layer has no rotary embedding.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct SmolLM3Config : Config<SmolLM3Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "smollm3";

  SmolLM3Config();

  bool use_sliding_window = false;
  std::optional<std::vector<int64_t>> no_rope_layers;  // 1: the layer has rotary embeddings, 0: it has none
  int64_t no_rope_layer_interval = 4;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
