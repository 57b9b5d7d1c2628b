// Hunyuan dense: norms on each head behind the rotation, and a base of the frequencies with a fixed factor.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

// With rope_type "dynamic" and alpha, the base is rope_theta * alpha^(head_dim / (head_dim - 2)) at any length.
struct AlphaRope : RopeParameters {
  std::optional<double> alpha;
};
void list_fields(AlphaRope& rope, FieldVisitor& v);

struct HunYuanDenseV1Config : Config<HunYuanDenseV1Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "hunyuan_v1_dense";

  HunYuanDenseV1Config();

  AlphaRope alpha_rope;                     // `rope` is what follows from it
  int64_t pretraining_tp = 1;               // kept for transformers
  std::optional<int64_t> eod_token_id = 3;  // kept for transformers

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
