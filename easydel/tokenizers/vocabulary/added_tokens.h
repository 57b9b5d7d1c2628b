// Added tokens: matched in the text before any other processing.
#pragma once

#include <cstdint>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "easydel/tokenizers/pipeline/normalizer.h"
#include "easydel/tokenizers/vocabulary/byte_trie.h"
#include "easydel/tokenizers/vocabulary/token_model.h"

namespace easydel {

struct AddedToken {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

class AddedTokens {
 public:
  // `field` is null for a file without any. Ids are those of the model if it has the token, else they follow it.
  AddedTokens(const std::optional<JsonField>& field, const TokenModel& model, const Normalizer* normalizer);

  struct Match {
    uint32_t begin, end;
    int32_t token;  // -1: the text between tokens
  };
  // Covers the text, in order; `normalized` selects the tokens that are matched after the normalizer.
  void find(std::string_view text, bool normalized, std::vector<Match>& matches) const;
  bool has(bool normalized) const { return !tries_[normalized ? 1 : 0].empty(); }

  int32_t token_to_id(std::string_view token) const;  // -1: absent
  const std::string* text_of(int32_t id) const;       // as decoders see it; null: absent
  bool is_special(int32_t id) const { return special_ids_.contains(id); }
  std::size_t count_beyond(const TokenModel& model) const;  // that the model does not have

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, AddedToken> tokens_;
  std::unordered_map<int32_t, std::string> normalized_;  // the content after the normalizer, where that differs
  std::unordered_set<int32_t> special_ids_;
  ByteTrie tries_[2];
};

}  // namespace easydel
