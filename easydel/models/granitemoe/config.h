// Granite 3 MoE: Granite's four multipliers, and experts in place of the MLP.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct GraniteMoeConfig : Config<GraniteMoeConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "granitemoe";

  GraniteMoeConfig();

  double embedding_multiplier = 1.0;  // of what enters the first layer
  double attention_multiplier = 1.0;  // of the scores, in place of 1 / sqrt(head_dim)
  double residual_multiplier = 1.0;   // of what attention and experts add
  double logits_scaling = 1.0;        // divides the logits

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
