// Qwen3-VL: Qwen3 behind a tower with learned positions, some of whose layers are seen by the decoder's first layers.
#pragma once

#include "easydel/models/qwen2_vl/config.h"

namespace easydel {

struct Qwen3VLVisionConfig : Config<Qwen3VLVisionConfig, QwenVisionConfig> {
  static constexpr std::string_view kModelType = "qwen3_vl_vision";
  Qwen3VLVisionConfig();

  int64_t out_hidden_size = 3584;
  int64_t num_position_embeddings = 2304;  // a square
  std::vector<int64_t> deepstack_visual_indexes = {8, 16, 24};

  int64_t out_width() const override { return out_hidden_size; }
  void fields(FieldVisitor& v) override;
  void validate() const override;
};

struct Qwen3VLTextConfig : Config<Qwen3VLTextConfig, QwenTextConfig> {
  static constexpr std::string_view kModelType = "qwen3_vl_text";
  Qwen3VLTextConfig();
  void fields(FieldVisitor& v) override;
};

struct Qwen3VLConfig : Config<Qwen3VLConfig, QwenVLConfig> {
  static constexpr std::string_view kModelType = "qwen3_vl";
  Qwen3VLConfig();
};

}  // namespace easydel
