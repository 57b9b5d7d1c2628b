// Mistral 3: Pixtral's tower, a projector that merges patches, and a decoder.
#pragma once

#include "easydel/infra/config/sub_config.h"

namespace easydel {

struct Mistral3Config : Config<Mistral3Config> {
  static constexpr std::string_view kModelType = "mistral3";
  Mistral3Config();

  SubConfig vision_config, text_config;
  int64_t image_token_index = 10;
  std::string projector_hidden_act = "gelu";
  Json vision_feature_layer = -1;  // a hidden state's number, or a list with one
  bool multimodal_projector_bias = false;
  int64_t spatial_merge_size = 2;

  int64_t feature_layer() const;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
