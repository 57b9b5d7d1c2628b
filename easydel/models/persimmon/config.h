// Persimmon: layer norms, biases everywhere, norms on the heads of queries and keys.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct PersimmonConfig : Config<PersimmonConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "persimmon";

  PersimmonConfig();

  double hidden_dropout = 0.0;
  bool qk_layernorm = true;

  void fields(FieldVisitor& v) override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
