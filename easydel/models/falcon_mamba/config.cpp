#include "easydel/models/falcon_mamba/config.h"

#include "easydel/infra/config/config_check.h"

namespace easydel {

void FalconMambaConfig::fields(FieldVisitor& v) {
  MambaConfig::fields(v);
  v("mixer_rms_eps", mixer_rms_eps, "Added under the root of the norms of time steps, B and C.");
}

void FalconMambaConfig::validate() const {
  MambaConfig::validate();
  ConfigCheck(*this).above_zero("mixer_rms_eps", mixer_rms_eps);
}

}  // namespace easydel
