// The merges of a byte-level BPE, found from the counts of words.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "easydel/tokenizers/bpe/word_counts.h"

namespace easydel {

struct TrainedBpe {
  std::vector<std::string> tokens;                    // by id: special tokens, the 256 bytes, the results of merges
  std::vector<std::pair<uint32_t, uint32_t>> merges;  // of ids, in the order in which they are applied
};

struct BpeLimits {
  std::size_t vocab_size = 0;
  uint64_t min_frequency = 0;
  std::size_t max_token_length = 0;  // 0: any
};

// The character that represents a byte in byte-level vocabularies: itself if printable, else one from U+0100 on.
std::string byte_level_character(uint8_t byte);

// Takes ownership of the words and frees them early.
TrainedBpe find_bpe_merges(WordCounts words, const std::vector<std::string>& special_tokens, const BpeLimits& limits,
                           Progress& progress);

}  // namespace easydel
