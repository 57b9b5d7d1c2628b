// CLIP: a tower for texts, a tower for images, and both.
#pragma once

#include "easydel/infra/config/sub_config.h"
#include "easydel/infra/encoder/encoder_config.h"

namespace easydel {

struct CLIPTextConfig : Config<CLIPTextConfig, EncoderConfig> {
  static constexpr std::string_view kModelType = "clip_text_model";
  CLIPTextConfig();

  int64_t projection_dim = 512;
  double initializer_factor = 1.0;

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

struct CLIPVisionConfig : Config<CLIPVisionConfig, VisionEncoderConfig> {
  static constexpr std::string_view kModelType = "clip_vision_model";
  CLIPVisionConfig();

  int64_t projection_dim = 512;
  double initializer_factor = 1.0;

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

struct CLIPConfig : Config<CLIPConfig> {
  static constexpr std::string_view kModelType = "clip";
  CLIPConfig();

  SubConfig text_config, vision_config;
  int64_t projection_dim = 512;
  double logit_scale_init_value = 2.6592;
  double initializer_factor = 1.0;

  void fields(FieldVisitor& v) override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
