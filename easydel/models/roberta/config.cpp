#include "easydel/models/roberta/config.h"

namespace easydel {

RobertaConfig::RobertaConfig() {
  vocab_size = 50265;
  pad_token_id = 1;
  bos_token_id = 0;
  eos_token_id = 2;
}

}  // namespace easydel
