// BLOOM: distances in place of position embeddings, layer norms, biases everywhere.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct BloomConfig : Config<BloomConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "bloom";

  BloomConfig();

  bool apply_residual_connection_post_layernorm = false;
  double hidden_dropout = 0.0;
  int64_t pretraining_tp = 1;  // these two: kept for transformers
  bool slow_but_exact = false;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
