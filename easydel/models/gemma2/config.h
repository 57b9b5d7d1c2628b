// Gemma 2: windows in every other layer, norms on both sides of a block, soft caps on scores and logits.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

// What Gemma 2 and 3 share.
struct CappedGemmaConfig : DecoderConfig {
  CappedGemmaConfig();

  int64_t query_pre_attn_scalar = 256;  // scores are divided by its root
  std::optional<double> final_logit_softcapping;
  std::optional<double> attn_logit_softcapping;
  std::optional<bool> use_bidirectional_attention;

  void validate() const override;

 protected:
  void gemma_fields(FieldVisitor& v);  // all but rope_parameters
};

struct Gemma2Config : Config<Gemma2Config, CappedGemmaConfig> {
  static constexpr std::string_view kModelType = "gemma2";

  Gemma2Config();

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
