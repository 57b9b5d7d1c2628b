// Falcon: three forms of attention, one key/value head or groups of them, rotary embeddings or distances.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct FalconConfig : Config<FalconConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "falcon";

  FalconConfig();

  std::optional<int64_t> num_kv_heads;             // of new_decoder_architecture
  std::optional<int64_t> num_ln_in_parallel_attn;  // 2 for new_decoder_architecture
  double hidden_dropout = 0.0;
  bool alibi = false;
  bool new_decoder_architecture = false;
  bool multi_query = true;
  bool parallel_attn = true;
  bool bias = false;

  bool has_two_norms() const { return new_decoder_architecture && num_ln_in_parallel_attn.value_or(2) == 2; }

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
