// Byte pair encoding: pairs are merged in the order in which training found them.
#pragma once

#include <cstdint>

#include <array>
#include <bitset>

#include "easydel/tokenizers/bpe/merge_table.h"
#include "easydel/tokenizers/vocabulary/token_model.h"
#include "easydel/tokenizers/vocabulary/vocabulary.h"

namespace easydel {

class BpeModel final : public TokenModel {
 public:
  explicit BpeModel(const JsonField& field);

  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override;
  int32_t token_to_id(std::string_view token) const override { return vocabulary_.find(token); }
  std::optional<std::string_view> id_to_token(int32_t id) const override { return vocabulary_.token(id); }
  std::size_t vocab_size() const override { return vocabulary_.size(); }

 private:
  void read_merges(const JsonField& field);
  void learn_characters();
  int32_t id_of(char32_t code) const;

  void tokenize_word(std::string_view word, ModelScratch& scratch, std::vector<ModelToken>& out) const;
  void tokenize_long(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const;
  void read_symbols(std::string_view word, ModelScratch& scratch) const;
  void merge_short(ModelScratch& scratch) const;
  void merge_long(ModelScratch& scratch) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::string prefix_, suffix_;
  int32_t unknown_ = -1;
  std::string unknown_token_;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  std::array<int32_t, 256> byte_ids_{};
  bool has_all_bytes_ = false;
  std::vector<int32_t> character_ids_;  // of the first 65536 code points

  // A filter over pairs of characters that some merge joins: where it returns false, a word splits into two independent
  // ones. It may return true for a pair that no merge joins.
  static constexpr std::size_t kJoints = 1 << 17;
  static std::size_t joint(char32_t left, char32_t right) {
    const uint64_t key = (uint64_t{left} << 21 | right) * 0x9E3779B97F4A7C15u;
    return key >> 47;
  }
  std::bitset<kJoints> joints_;
};

}  // namespace easydel
