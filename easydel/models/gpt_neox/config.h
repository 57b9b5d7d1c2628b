// GPT-NeoX and Pythia: a quarter of each head is rotated, attention and MLP side by side.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct GPTNeoXConfig : Config<GPTNeoXConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "gpt_neox";

  GPTNeoXConfig();

  double hidden_dropout = 0.0;
  double classifier_dropout = 0.1;  // kept for transformers: of token classification
  bool use_parallel_residual = true;
  bool is_decoder = false;  // kept for transformers

  void fields(FieldVisitor& v) override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
