// DeepSeek V3 and R1.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct DeepseekV3Config : Config<DeepseekV3Config, LatentMoeConfig> {
  static constexpr std::string_view kModelType = "deepseek_v3";

  DeepseekV3Config();

  std::optional<bool> rope_interleave = true;
  int64_t num_nextn_predict_layers = 1;  // of the files, behind the last layer; not read

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
