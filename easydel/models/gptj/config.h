// GPT-J: attention and MLP side by side, neighbours of the first rotary_dim features of a head turn together.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct GPTJConfig : Config<GPTJConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "gptj";

  GPTJConfig();

  int64_t rotary_dim = 64;
  std::optional<int64_t> n_inner;  // 4 * hidden_size
  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
