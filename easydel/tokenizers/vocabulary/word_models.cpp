// The models that look words up: WordPiece takes the longest token again and again, WordLevel whole words.
#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/vocabulary/byte_trie.h"
#include "easydel/tokenizers/vocabulary/token_model.h"

namespace easydel {
namespace {

class WordModel : public TokenModel {
 public:
  WordModel(const JsonField& field, std::string_view unknown_default)
      : vocabulary_(field["vocab"]),
        unknown_token_(field.string_or("unk_token", unknown_default)),
        unknown_(vocabulary_.find(unknown_token_)) {}

  int32_t token_to_id(std::string_view token) const override { return vocabulary_.find(token); }
  std::optional<std::string_view> id_to_token(int32_t id) const override { return vocabulary_.token(id); }
  std::size_t vocab_size() const override { return vocabulary_.size(); }

 protected:
  void add_unknown(std::string_view piece, std::vector<ModelToken>& out) const {
    require<FormatError>(unknown_ >= 0, "[Tokenizer] the text has a word without a token, and unk_token \"",
                         unknown_token_, "\" is not in the vocabulary.");
    out.push_back({unknown_, 0, static_cast<uint32_t>(piece.size())});
  }

  Vocabulary vocabulary_;
  std::string unknown_token_;
  int32_t unknown_;
};

class WordPieceModel final : public WordModel {
 public:
  explicit WordPieceModel(const JsonField& field) : WordModel(field, "[UNK]") {
    const std::string prefix = field.string_or("continuing_subword_prefix", "##");
    std::vector<ByteTrie::Entry> whole;
    std::vector<ByteTrie::Entry> rest;
    vocabulary_.for_each([&](std::string_view token, int32_t id) {
      whole.emplace_back(token, id);
      if (token.starts_with(prefix)) rest.emplace_back(token.substr(prefix.size()), id);
    });
    whole_ = ByteTrie(std::move(whole));
    rest_ = ByteTrie(std::move(rest));
    if (const auto most = field.find("max_input_chars_per_word")) most_ = most->as_int(0, INT64_MAX);
  }

  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override {
    through_cache(piece, scratch, out, [&](std::string_view text, std::vector<ModelToken>& tokens) {
      const std::size_t before = tokens.size();
      if (static_cast<int64_t>(utf8::count(text)) > most_ || !cut(text, tokens)) {
        tokens.resize(before);
        add_unknown(text, tokens);
      }
    });
  }

 private:
  bool cut(std::string_view text, std::vector<ModelToken>& out) const {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t size = 0;
      int32_t id = -1;
      (begin == 0 ? whole_ : rest_).prefixes(text.substr(begin), [&](std::size_t length, int32_t value) {
        size = length;
        id = value;
      });
      if (id < 0) return false;
      out.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + size)});
      begin += size;
    }
    return true;
  }

  ByteTrie whole_, rest_;  // tokens that start a word, and those that continue one, without their prefix
  int64_t most_ = 100;
};

class WordLevelModel final : public WordModel {
 public:
  explicit WordLevelModel(const JsonField& field) : WordModel(field, "<unk>") {}

  void tokenize(std::string_view piece, ModelScratch&, std::vector<ModelToken>& out) const override {
    const int32_t id = vocabulary_.find(piece);
    if (id < 0) return add_unknown(piece, out);
    out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
  }
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(const JsonField& field) { return std::make_unique<WordPieceModel>(field); }
std::unique_ptr<TokenModel> make_word_level(const JsonField& field) { return std::make_unique<WordLevelModel>(field); }

std::unique_ptr<TokenModel> make_token_model(const JsonField& field) {
  // Files without "type" are distinguished by fields that only one model has.
  if (!field.find("type")) {
    if (field.find("merges")) return make_bpe(field);
    if (field["vocab"].json().is_array()) return make_unigram(field);
    return field.find("continuing_subword_prefix") ? make_word_piece(field) : make_word_level(field);
  }
  switch (field["type"].one_of({"BPE", "Unigram", "WordPiece", "WordLevel"})) {
    case 0: return make_bpe(field);
    case 1: return make_unigram(field);
    case 2: return make_word_piece(field);
    default: return make_word_level(field);
  }
}

}  // namespace easydel
