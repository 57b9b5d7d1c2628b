// Phi-3, Phi-3.5 and Phi-4: q, k and v in one matrix, gate and up in another.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct Phi3Config : Config<Phi3Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "phi3";

  Phi3Config();

  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  int64_t original_max_position_embeddings = 4096;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
