// Starcoder2: layer norms, biases everywhere, and an MLP without a gate.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Starcoder2Config : Config<Starcoder2Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "starcoder2";

  Starcoder2Config();

  double residual_dropout = 0.0;
  double embedding_dropout = 0.0;
  bool use_bias = true;  // of every projection

  void fields(FieldVisitor& v) override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
