// Phi-3, Phi-3.5 and Phi-4: q, k and v in one matrix, gate and up in another.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "easydel/infra/config.h"

namespace easydel {

struct Phi3Config : Config<Phi3Config> {
  static constexpr std::string_view kModelType = "phi3";

  Phi3Config();

  double rms_norm_eps = 1e-5;
  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  double attention_dropout = 0.0;
  int64_t original_max_position_embeddings = 4096;
  std::optional<int64_t> sliding_window;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
