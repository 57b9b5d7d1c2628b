// Llama 1 to 3.3, and the many models that share its shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "easydel/infra/config.h"

namespace easydel {

struct LlamaConfig : Config<LlamaConfig> {
  static constexpr std::string_view kModelType = "llama";

  LlamaConfig();

  double rms_norm_eps = 1e-6;
  bool attention_bias = false;  // of all four projections
  double attention_dropout = 0.0;
  bool mlp_bias = false;
  std::optional<int64_t> pretraining_tp = 1;  // kept for transformers

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
