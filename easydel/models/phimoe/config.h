// Phi-3.5 MoE: layer norms, and two of sixteen experts.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

// longrope with factors of cos and sin of its own.
struct MscaleRope : RopeParameters {
  std::optional<double> short_mscale, long_mscale;
};
void list_fields(MscaleRope& rope, FieldVisitor& v);

struct PhimoeConfig : Config<PhimoeConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "phimoe";

  PhimoeConfig();

  MscaleRope mscale_rope;  // `rope` is what follows from it
  double router_jitter_noise = 0.01;
  double input_jitter_noise = 0.0;  // kept for transformers
  bool lm_head_bias = false;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
