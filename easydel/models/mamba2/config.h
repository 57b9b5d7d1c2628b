// Mamba 2: a selective state space for each head of channels.
#pragma once

#include "easydel/models/mamba/config.h"

namespace easydel {

struct Mamba2Config : Config<Mamba2Config, StateSpaceConfig> {
  static constexpr std::string_view kModelType = "mamba2";

  Mamba2Config();

  int64_t num_heads = 128;
  int64_t n_groups = 8;
  // Least and most; transformers writes an infinite one as {"__float__": "Infinity"}.
  Json time_step_limit = Json::array({0.0, Json::object({{"__float__", "Infinity"}})});
  int64_t chunk_size = 256;

  // Of a time_step_limit; -1: it is not a number.
  static double time_step_bound(const Json& limit, std::size_t index);
  static void check_time_step_limit(const BaseConfig& config, const Json& limit);

  void fields(FieldVisitor& v) override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
