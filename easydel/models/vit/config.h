// ViT: a tower of encoder layers over patches.
#pragma once

#include "easydel/infra/encoder/encoder_config.h"

namespace easydel {

struct ViTConfig : Config<ViTConfig, VisionEncoderConfig> {
  static constexpr std::string_view kModelType = "vit";
  ViTConfig();

  int64_t encoder_stride = 16;
  std::optional<int64_t> pooler_output_size;  // hidden_size
  std::string pooler_act = "tanh";

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
