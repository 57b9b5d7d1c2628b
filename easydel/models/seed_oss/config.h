// Seed-OSS: Llama with biases on queries, keys and values, and dropout.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct SeedOssConfig : Config<SeedOssConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "seed_oss";

  SeedOssConfig();

  int64_t pretraining_tp = 1;  // kept for transformers
  bool attention_out_bias = false;
  double residual_dropout = 0.1;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
