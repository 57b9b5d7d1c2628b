// Falcon Mamba: Mamba with norms inside of its mixers.
#pragma once

#include "easydel/models/mamba/config.h"

namespace easydel {

struct FalconMambaConfig : Config<FalconMambaConfig, MambaConfig> {
  static constexpr std::string_view kModelType = "falcon_mamba";

  double mixer_rms_eps = 1e-6;

  void fields(FieldVisitor& v) override;
  void validate() const override;
};

}  // namespace easydel
