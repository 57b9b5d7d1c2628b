// Llama 1 to 3.3, and the many models that share its shape.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct LlamaConfig : Config<LlamaConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "llama";

  LlamaConfig();

  std::optional<int64_t> pretraining_tp = 1;  // kept for transformers

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
