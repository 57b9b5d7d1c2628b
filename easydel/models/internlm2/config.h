// InternLM2 and InternLM2.5: Llama with q, k and v in one matrix, under names of its own.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct InternLM2Config : Config<InternLM2Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "internlm2";

  InternLM2Config();

  bool bias = false;           // of the attention's projections
  int64_t pretraining_tp = 1;  // kept for its own code

  void fields(FieldVisitor& v) override;
  void post_init() override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
