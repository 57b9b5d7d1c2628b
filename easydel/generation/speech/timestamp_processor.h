// Whisper's timestamps among the tokens.
#pragma once

#include "easydel/generation/logits_processor.h"

namespace easydel {

// Tokens from no_timestamps_token_id + 1 on are times. They come first, in pairs except before an end, and never go
// back; where all times together are likelier than any other token, one of them is next. Rows begin with begin_index
// tokens that are given.
class WhisperTimeStampLogitsProcessor final : public LogitsProcessor {
 public:
  WhisperTimeStampLogitsProcessor(int64_t no_timestamps_token_id, int64_t eos_token_id, int64_t begin_index,
                                  std::optional<int64_t> max_initial_timestamp_index);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t no_timestamps_, eos_, begin_;
  std::optional<int64_t> max_initial_;
};

}  // namespace easydel
