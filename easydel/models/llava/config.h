// LLaVA: a tower for images, a projector, and any decoder.
#pragma once

#include "easydel/infra/config/sub_config.h"

namespace easydel {

struct LlavaConfig : Config<LlavaConfig> {
  static constexpr std::string_view kModelType = "llava";
  LlavaConfig();

  SubConfig vision_config, text_config;
  int64_t image_token_index = 32000;
  int64_t image_seq_length = 576;
  std::string projector_hidden_act = "gelu";
  std::string vision_feature_select_strategy = "default";  // without the class token; "full": with it
  Json vision_feature_layer = -2;                          // a hidden state's number, or a list of them
  bool multimodal_projector_bias = true;

  std::vector<int64_t> feature_layers() const;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
