// Gemma 2: windows in every other layer, norms on both sides of a block, soft caps on scores and logits.
#pragma once

#include "easydel/infra/decoder_config.h"

namespace easydel {

struct Gemma2Config : Config<Gemma2Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "gemma2";

  Gemma2Config();

  int64_t query_pre_attn_scalar = 256;  // scores are divided by its root
  std::optional<double> final_logit_softcapping = 30.0;
  std::optional<double> attn_logit_softcapping = 50.0;
  std::optional<bool> use_bidirectional_attention;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
