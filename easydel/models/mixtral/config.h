// Mixtral: Mistral's attention with a router and experts in place of the MLP.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct MixtralConfig : Config<MixtralConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "mixtral";

  MixtralConfig();

  double router_jitter_noise = 0.0;

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
