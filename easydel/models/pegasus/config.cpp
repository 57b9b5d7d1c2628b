#include "easydel/models/pegasus/config.h"

#include "easydel/core/error.h"

namespace easydel {

PegasusConfig::PegasusConfig() {
  pad_token_id = 0;
  bos_token_id = {};
  eos_token_id = 1;
  forced_eos_token_id = 1;
  decoder_start_token_id = 0;
}

void PegasusConfig::validate() const {
  BartFamilyConfig::validate();
  require<ConfigError>(hidden_size >= 4 && hidden_size % 2 == 0,
                       "[PegasusConfig] d_model must be even and at least 4, for sines and cosines; got ", hidden_size,
                       ".");
}

}  // namespace easydel
