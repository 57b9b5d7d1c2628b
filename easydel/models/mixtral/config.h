// Mixtral: Mistral's attention with a router and experts in place of the MLP.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "easydel/infra/config.h"

namespace easydel {

struct MixtralConfig : Config<MixtralConfig> {
  static constexpr std::string_view kModelType = "mixtral";

  MixtralConfig();

  double rms_norm_eps = 1e-5;
  std::optional<int64_t> sliding_window;
  double attention_dropout = 0.0;
  int64_t num_experts_per_tok = 2;
  int64_t num_local_experts = 8;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001;
  double router_jitter_noise = 0.0;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
