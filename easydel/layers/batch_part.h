// The part of a batch that a rank works on.
#pragma once

#include <cstdint>

namespace easydel {

// Ranks that share a batch have equal parts; the last ones may be filled up.
struct BatchPart {
  int64_t batch = 0, tokens = 0;                       // of the whole, filled up
  int64_t first_row = 0, first_token = 0;              // of this part
  int64_t given_batch = 0, given_tokens = 0;           // of the whole, as it was given
  bool batch_sharded = true, sequence_sharded = true;  // false: every rank has all of them, as with a cache
};

}  // namespace easydel
