// SmolVLM: a SigLIP tower for tiles of images, whose patches are shuffled together, and a decoder.
#pragma once

#include "easydel/infra/config/sub_config.h"
#include "easydel/infra/encoder/encoder_config.h"

namespace easydel {

struct SmolVLMVisionConfig : Config<SmolVLMVisionConfig, VisionEncoderConfig> {
  static constexpr std::string_view kModelType = "smolvlm_vision";
  SmolVLMVisionConfig();
  void fields(FieldVisitor& v) override;
};

struct SmolVLMConfig : Config<SmolVLMConfig> {
  static constexpr std::string_view kModelType = "smolvlm";
  SmolVLMConfig();

  SubConfig vision_config, text_config;
  int64_t image_token_id = 128257;
  int64_t scale_factor = 2;  // patches of a side that become one feature

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
