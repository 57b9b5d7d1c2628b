// DeepSeek V2 and its Lite.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct DeepseekV2Config : Config<DeepseekV2Config, LatentMoeConfig> {
  static constexpr std::string_view kModelType = "deepseek_v2";

  DeepseekV2Config();

  std::optional<std::string> topk_method = "greedy";  // or group_limited_greedy

  bool in_groups() const { return topk_method == "group_limited_greedy"; }

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
