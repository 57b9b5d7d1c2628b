// Phi 1, 1.5 and 2: attention and MLP side by side, layer norms, biases everywhere.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct PhiConfig : Config<PhiConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "phi";

  PhiConfig();

  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  bool qk_layernorm = false;

  void fields(FieldVisitor& v) override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
