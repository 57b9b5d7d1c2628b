#include "easydel/models/mt5/config.h"

namespace easydel {

MT5Config::MT5Config() {
  vocab_size = 250112;
  intermediate_size = 1024;
  num_hidden_layers = 8;
  num_attention_heads = 6;
  feed_forward_proj = "gated-gelu";
  decoder_start_token_id = 0;
  scale_decoder_outputs = false;
  has_bos_key_ = true;
}

}  // namespace easydel
