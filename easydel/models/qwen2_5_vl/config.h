// Qwen2.5-VL: Qwen2-VL with windows in the tower, gated MLPs and RMS norms there.
#pragma once

#include "easydel/models/qwen2_vl/config.h"

namespace easydel {

struct Qwen2_5_VLVisionConfig : Config<Qwen2_5_VLVisionConfig, QwenVisionConfig> {
  static constexpr std::string_view kModelType = "qwen2_5_vl_vision";
  Qwen2_5_VLVisionConfig();

  int64_t out_hidden_size = 3584;
  int64_t window_size = 112;  // pixels
  int64_t tokens_per_second = 4;
  std::vector<int64_t> fullatt_block_indexes = {7, 15, 23, 31};

  int64_t out_width() const override { return out_hidden_size; }
  int64_t window() const { return window_size / spatial_merge_size / patch_size; }  // tokens on a side
  void fields(FieldVisitor& v) override;
  void validate() const override;
};

struct Qwen2_5_VLTextConfig : Config<Qwen2_5_VLTextConfig, Qwen2TextWithGrids> {
  static constexpr std::string_view kModelType = "qwen2_5_vl_text";
};

struct Qwen2_5_VLConfig : Config<Qwen2_5_VLConfig, QwenVLConfig> {
  static constexpr std::string_view kModelType = "qwen2_5_vl";
  Qwen2_5_VLConfig();
};

}  // namespace easydel
