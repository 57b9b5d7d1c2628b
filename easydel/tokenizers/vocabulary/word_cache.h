// A cache of recent words and their tokens, for one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/tokenizers/vocabulary/vocabulary.h"

namespace easydel {

struct ModelToken {
  int32_t id;
  uint32_t begin, end;  // bytes of the piece
};

// A fixed number of slots; a new word replaces an older one.
class WordCache {
 public:
  static constexpr std::size_t kMaxWordBytes = 64;  // bytes of a word

  std::optional<std::span<const ModelToken>> find(std::string_view word, uint64_t hash) const {
    if (slots_.empty()) return std::nullopt;
    for (std::size_t way = 0; way < kWays; ++way) {
      const Slot& slot = slots_[(hash + way) & (kSlots - 1)];
      if (slot.hash == hash && std::string_view(words_).substr(slot.word, slot.word_size) == word) {
        return std::span(tokens_).subspan(slot.tokens, slot.token_count);
      }
    }
    return std::nullopt;
  }

  void add(std::string_view word, uint64_t hash, std::span<const ModelToken> tokens);

 private:
  static constexpr std::size_t kSlots = 1 << 15;
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  struct Slot {
    uint64_t hash = 0;
    uint32_t word = 0, word_size = 0, tokens = 0, token_count = 0;
  };
  std::vector<Slot> slots_;
  std::string words_;
  std::vector<ModelToken> tokens_;
};

}  // namespace easydel
