// The text model of Qwen3.5: Qwen3-Next's layers with an MLP.
#pragma once

#include "easydel/models/qwen3_next/config.h"

namespace easydel {

struct Qwen3_5TextConfig : Config<Qwen3_5TextConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "qwen3_5_text";

  Qwen3_5TextConfig();

  LinearAttentionKeys linear;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
