// StableLM: layer norms, a quarter of each head is rotated.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct StableLmConfig : Config<StableLmConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "stablelm";

  StableLmConfig();

  bool use_qkv_bias = false;
  bool qk_layernorm = false;
  bool use_parallel_residual = false;
  double hidden_dropout = 0.0;

  void fields(FieldVisitor& v) override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

}  // namespace easydel
