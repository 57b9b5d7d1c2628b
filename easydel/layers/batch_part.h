// The part of a batch that a rank works on.
#pragma once

#include <cstdint>

namespace easydel {

// Ranks that share a batch have equal parts; the last ones may be padded.
struct BatchPart {
  int64_t batch = 0, tokens = 0;                       // of the full batch, padded
  int64_t first_row = 0, first_token = 0;              // of this part
  int64_t given_batch = 0, given_tokens = 0;           // of the full batch, without padding
  bool batch_sharded = true, sequence_sharded = true;  // false: replicated, as with a cache
};

}  // namespace easydel
