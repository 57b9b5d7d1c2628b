// gpt-oss: attention with sinks and a window in every other layer, and experts with biases.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct GptOssConfig : Config<GptOssConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "gpt_oss";

  GptOssConfig();

  double swiglu_alpha = 1.702;
  double swiglu_limit = 7.0;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
