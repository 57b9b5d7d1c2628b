// Pegasus: BART's parts with pre-norms and fixed positions.
#pragma once

#include "easydel/models/bart/config.h"

namespace easydel {

struct PegasusConfig : Config<PegasusConfig, BartFamilyConfig> {
  static constexpr std::string_view kModelType = "pegasus";

  PegasusConfig();
  bool has_post_norm() const override { return false; }
  bool has_sinusoids() const override { return true; }

  void fields(FieldVisitor& v) override { seq2seq_fields(v); }
  void validate() const override;
};

}  // namespace easydel
