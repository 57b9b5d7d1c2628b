#include "easydel/models/qwen2_5_vl/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

Qwen2_5_VLVisionConfig::Qwen2_5_VLVisionConfig() {
  hidden_size = 3584;
  intermediate_size = 3420;
  hidden_act = "silu";
}

void Qwen2_5_VLVisionConfig::fields(FieldVisitor& v) {
  tower_fields(v);
  v("hidden_size", hidden_size, "Width of the tower.");
  v("intermediate_size", intermediate_size, "Width of the tower's MLPs.");
  v("out_hidden_size", out_hidden_size, "Width of a token, which is the decoder's.");
  v("window_size", window_size, "Height and width of a window, in pixels.");
  v("fullatt_block_indexes", fullatt_block_indexes,
    "Layers with attention over whole frames; the others have windows.");
  v("tokens_per_second", tokens_per_second, "Positions in time that a second of a video takes.");
}

void Qwen2_5_VLVisionConfig::validate() const {
  QwenVisionConfig::validate();
  const ConfigCheck check(*this);
  check.at_least("intermediate_size", intermediate_size, 1);
  check.at_least("tokens_per_second", tokens_per_second, 0);
  require<ConfigError>(window() >= 1, "[", class_name(),
                       "] window_size must have a token of spatial_merge_size x patch_size pixels, ",
                       spatial_merge_size * patch_size, "; got ", window_size, ".");
}

Qwen2_5_VLConfig::Qwen2_5_VLConfig() {
  vision_config = SubConfig(Qwen2_5_VLVisionConfig());
  text_config = SubConfig(Qwen2_5_VLTextConfig());
  post_init();
}

}  // namespace easydel
