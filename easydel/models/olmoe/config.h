// OLMoE: OLMo 2's norms on queries and keys, and small experts in every layer.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct OlmoeConfig : Config<OlmoeConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "olmoe";

  OlmoeConfig();

  std::optional<double> clip_qkv;
  bool norm_topk_prob = false;

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
