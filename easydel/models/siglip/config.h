// SigLIP: CLIP with another loss, and a pooling head.
#pragma once

#include "easydel/infra/config/sub_config.h"
#include "easydel/infra/encoder/encoder_config.h"

namespace easydel {

struct SiglipTextConfig : Config<SiglipTextConfig, EncoderConfig> {
  static constexpr std::string_view kModelType = "siglip_text_model";
  SiglipTextConfig();

  std::optional<int64_t> projection_size;  // hidden_size

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

struct SiglipVisionConfig : Config<SiglipVisionConfig, VisionEncoderConfig> {
  static constexpr std::string_view kModelType = "siglip_vision_model";
  SiglipVisionConfig();

  bool vision_use_head = true;

  void fields(FieldVisitor& v) override;
};

struct SiglipConfig : Config<SiglipConfig> {
  static constexpr std::string_view kModelType = "siglip";
  SiglipConfig();

  SubConfig text_config, vision_config;
  double initializer_factor = 1.0;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
