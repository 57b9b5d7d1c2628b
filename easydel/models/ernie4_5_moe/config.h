// ERNIE 4.5 MoE: ERNIE 4.5 with experts in some of the layers.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct Ernie4_5_MoeConfig : Config<Ernie4_5_MoeConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "ernie4_5_moe";

  Ernie4_5_MoeConfig();

  bool use_bias = false;  // of every projection but the experts'
  int64_t moe_intermediate_size = 1536;
  int64_t moe_num_shared_experts = 2;
  int64_t moe_layer_start_index = 1;
  int64_t moe_layer_end_index = -1;  // the last layer
  int64_t moe_layer_interval = 1;
  double moe_norm_min = 1e-12;

  bool has_experts(int64_t layer) const;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
