#include "easydel/models/xlm_roberta/config.h"

namespace easydel {

XLMRobertaConfig::XLMRobertaConfig() {
  pad_token_id = 1;
  bos_token_id = 0;
  eos_token_id = 2;
}

}  // namespace easydel
