// The tokens that are matched in a text before sentencepiece processes the rest.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace easydel {

class SentencePieceAddedTokens {
 public:
  struct Stretch {  // of a text: a token with the white space it strips, or the text between tokens
    std::size_t begin = 0, end = 0;
    const SentencePieceAddedToken* token = nullptr;
  };

  // ConfigError for one without text or an id, and for duplicates.
  explicit SentencePieceAddedTokens(std::vector<SentencePieceAddedToken> tokens);
  SentencePieceAddedTokens(const SentencePieceAddedTokens&) = delete;
  SentencePieceAddedTokens& operator=(const SentencePieceAddedTokens&) = delete;

  const std::vector<SentencePieceAddedToken>& all() const { return tokens_; }
  const SentencePieceAddedToken* find(int32_t id) const;
  const SentencePieceAddedToken* find(std::string_view content) const;

  // From left to right, the longest match first; every byte of the text is in one stretch.
  std::vector<Stretch> split(std::string_view text) const;

 private:
  const SentencePieceAddedToken* at(std::string_view text, std::size_t begin) const;

  const std::vector<SentencePieceAddedToken> tokens_;
  std::unordered_map<int32_t, const SentencePieceAddedToken*> by_id_;
  std::array<std::vector<const SentencePieceAddedToken*>, 256> by_first_byte_;  // longest first
};

}  // namespace easydel
