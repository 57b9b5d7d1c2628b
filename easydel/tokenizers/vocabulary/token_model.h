// Models, which turn a piece of text into tokens: one class for each type of "model".
#pragma once

#include <cstdint>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "easydel/tokenizers/files/json_field.h"
#include "easydel/tokenizers/vocabulary/word_cache.h"

namespace easydel {

// Per-thread state; a model itself is immutable.
struct ModelScratch {
  struct Node {  // of the best path, for Unigram
    double score;
    int32_t begin, id;
  };
  WordCache cache;
  std::vector<int32_t> symbols, next, previous;
  std::vector<uint32_t> lengths, ranks;
  std::vector<uint64_t> heap;
  std::vector<Node> nodes;
  std::string key;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Appends the tokens of a piece, which must be UTF-8. FormatError when a character has no token and there is no
  // unknown token.
  virtual void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const = 0;
  virtual int32_t token_to_id(std::string_view token) const = 0;  // -1: absent
  virtual std::optional<std::string_view> id_to_token(int32_t id) const = 0;
  virtual std::size_t vocab_size() const = 0;
};

std::unique_ptr<TokenModel> make_token_model(const JsonField& field);

// The types.
std::unique_ptr<TokenModel> make_bpe(const JsonField& field);
std::unique_ptr<TokenModel> make_unigram(const JsonField& field);
std::unique_ptr<TokenModel> make_word_piece(const JsonField& field);
std::unique_ptr<TokenModel> make_word_level(const JsonField& field);

// Tokens of recent pieces come from the cache; `compute` appends those of a new one.
template <class Compute>
void through_cache(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out,
                   const Compute& compute) {
  if (piece.size() > WordCache::kMaxWordBytes) return compute(piece, out);
  const uint64_t hash = hash_bytes(piece);
  if (const auto known = scratch.cache.find(piece, hash)) {
    out.insert(out.end(), known->begin(), known->end());
    return;
  }
  const std::size_t before = out.size();
  compute(piece, out);
  scratch.cache.add(piece, hash, std::span(out).subspan(before));
}

}  // namespace easydel
