// DINOv2: ViT with a scale behind each part of a layer.
#pragma once

#include "easydel/infra/encoder/encoder_config.h"

namespace easydel {

struct Dinov2Config : Config<Dinov2Config, VisionEncoderConfig> {
  static constexpr std::string_view kModelType = "dinov2";
  Dinov2Config();

  int64_t mlp_ratio = 4;
  double layerscale_value = 1.0;
  double drop_path_rate = 0.0;
  bool use_swiglu_ffn = false;
  bool apply_layernorm = true, reshape_hidden_states = true, use_mask_token = true;
  // What a backbone would give, which this library has none of.
  std::optional<std::vector<std::string>> out_features, stage_names;
  std::optional<std::vector<int64_t>> out_indices;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
