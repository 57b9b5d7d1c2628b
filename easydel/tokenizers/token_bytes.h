// The bytes that each token adds to a text, which need not be whole characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

// Finds them with decode alone: a token is decoded between two copies of an ordinary one. So they are what a reader of
// the text sees, whatever the tokenizer's decoder does; the first token of a text may lose a space.
class TokenBytes {
 public:
  // NotSupportedError when the text of a token depends on its neighbours, as in a decoder of type CTC.
  explicit TokenBytes(const Tokenizer& tokenizer);

  // Special tokens have their content; nullopt for ids that the tokenizer does not have, and for tokens whose text
  // depends on their neighbours.
  std::optional<std::string> operator()(int32_t id) const;

 private:
  bool try_anchor(int32_t id);

  const Tokenizer& tokenizer_;
  int32_t anchor_ = -1;
  std::string before_, after_;  // what the anchor is as the first token, and as a later one
};

// Of one token. Use the class for many.
std::optional<std::string> token_bytes(const Tokenizer& tokenizer, int32_t id);

}  // namespace easydel
