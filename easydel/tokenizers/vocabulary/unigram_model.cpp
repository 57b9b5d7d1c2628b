// Unigram: of all segmentations of a piece into tokens, the one with the highest sum of scores.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/vocabulary/byte_trie.h"
#include "easydel/tokenizers/vocabulary/token_model.h"

namespace easydel {
namespace {

constexpr double kUnknownPenalty = 10;

// The number that the package parses from the shortest text of `score`: all digits as an integer, times a power of ten,
// which rounds twice. It decides between paths whose sums differ only in the last bit.
double as_the_package_reads(double score) {
  std::array<char, 64> text{};
  const char* end = std::to_chars(text.data(), text.data() + text.size(), score, std::chars_format::scientific).ptr;
  const char* exponent_at = std::find(static_cast<const char*>(text.data()), end, 'e');
  if (exponent_at == end) return score;  // infinite, or none
  uint64_t digits = 0;
  int exponent = 0;
  bool is_fraction = false;
  for (const char* c = text.data(); c < exponent_at; ++c) {
    if (*c == '.') is_fraction = true;
    if (*c < '0' || *c > '9') continue;
    digits = 10 * digits + static_cast<uint64_t>(*c - '0');
    exponent -= is_fraction ? 1 : 0;
  }
  exponent += std::atoi(exponent_at + 1);
  if (exponent < -300 || exponent > 300) return score;
  const double power = std::strtod(("1e" + std::to_string(std::abs(exponent))).c_str(), nullptr);
  const double value = exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return score < 0 ? -value : value;
}

class UnigramModel final : public TokenModel {
 public:
  explicit UnigramModel(const JsonField& field) : byte_fallback_(field.bool_or("byte_fallback", false)) {
    const JsonField vocab = field["vocab"];
    const Json::Array& entries = vocab.as_array();
    vocabulary_.reserve(entries.size());
    std::vector<ByteTrie::Entry> keys;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const bool is_pair = entries[i].is_array() && entries[i].size() == 2 &&
                           entries[i].at(std::size_t{0}).is_string() && entries[i].at(std::size_t{1}).is_number();
      if (!is_pair) vocab[i].refuse("must be a token and its score; got ", entries[i].type_name(), ".");
      const std::string& token = entries[i].at(std::size_t{0}).as_string();
      scores_.push_back(as_the_package_reads(entries[i].at(std::size_t{1}).as_double()));
      if (scores_.back() < lowest) lowest = scores_.back();
      vocabulary_.add(token, static_cast<int32_t>(i));
      keys.emplace_back(token, static_cast<int32_t>(i));
    }
    unknown_score_ = lowest - kUnknownPenalty;
    if (const auto unknown = field.find("unk_id")) {
      unknown_ = static_cast<int32_t>(unknown->as_int(0, static_cast<int64_t>(entries.size()) - 1));
    }
    trie_ = ByteTrie(std::move(keys));
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::array<char, 8> text{};
      std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
      byte_ids_[byte] = vocabulary_.find(text.data());
    }
  }

  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override {
    if (piece.empty()) return;
    through_cache(piece, scratch, out, [&](std::string_view text, std::vector<ModelToken>& tokens) {
      find_best_path(text, scratch);
      write_tokens(text, scratch, tokens);
    });
  }

  int32_t token_to_id(std::string_view token) const override { return vocabulary_.find(token); }
  std::optional<std::string_view> id_to_token(int32_t id) const override { return vocabulary_.token(id); }
  std::size_t vocab_size() const override { return scores_.size(); }

 private:
  void find_best_path(std::string_view text, ModelScratch& scratch) const {
    auto& nodes = scratch.nodes;
    nodes.assign(text.size() + 1, {0, -1, -1});
    std::size_t length = 0;
    for (std::size_t at = 0; at < text.size(); at += length) {
      length = utf8::length_of_lead(text[at]);
      const double so_far = nodes[at].score;
      bool has_single = false;
      const auto offer = [&](std::size_t size, int32_t id, double score) {
        ModelScratch::Node& node = nodes[at + size];
        if (node.begin < 0 || so_far + score > node.score) node = {so_far + score, static_cast<int32_t>(at), id};
      };
      trie_.prefixes(text.substr(at), [&](std::size_t size, int32_t id) {
        offer(size, id, scores_[static_cast<std::size_t>(id)]);
        has_single = has_single || size == length;
      });
      if (!has_single) {
        require_unknown(nodes[at + length].begin < 0 || so_far + unknown_score_ > nodes[at + length].score);
        offer(length, unknown_, unknown_score_);
      }
    }
  }

  void require_unknown(bool is_taken) const {
    require<FormatError>(!is_taken || unknown_ >= 0,
                         "[Tokenizer] the text has a character without a token, and the model has no unk_id.");
  }

  // Follows the path back; adjacent unknown characters are one token.
  void write_tokens(std::string_view text, ModelScratch& scratch, std::vector<ModelToken>& tokens) const {
    const std::size_t before = tokens.size();
    auto end = static_cast<uint32_t>(text.size());
    while (end > 0) {
      const ModelScratch::Node& node = scratch.nodes[end];
      const auto begin = static_cast<uint32_t>(node.begin);
      const bool fuses = node.id == unknown_ && tokens.size() > before && tokens.back().id == unknown_;
      if (fuses) {
        tokens.back().begin = begin;
      } else {
        tokens.push_back({node.id, begin, end});
      }
      end = begin;
    }
    std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(before), tokens.end());
    const std::size_t count = tokens.size();
    for (std::size_t i = before; i < count; ++i) {
      if (tokens[i].id == unknown_) return resolve_unknown(text, before, tokens);
    }
  }

  void resolve_unknown(std::string_view text, std::size_t before, std::vector<ModelToken>& tokens) const {
    const std::vector<ModelToken> found(tokens.begin() + static_cast<std::ptrdiff_t>(before), tokens.end());
    tokens.resize(before);
    for (ModelToken token : found) {
      if (token.id != unknown_) {
        tokens.push_back(token);
        continue;
      }
      const std::string_view part = text.substr(token.begin, token.end - token.begin);
      const int32_t id = vocabulary_.find(part);
      const bool has_bytes =
          byte_fallback_ && id < 0 &&
          std::all_of(
              part.begin(), part.end(), [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)] >= 0; });
      if (has_bytes) {
        for (const char byte : part) {
          tokens.push_back({byte_ids_[static_cast<unsigned char>(byte)], token.begin, token.end});
        }
      } else {
        token.id = id >= 0 ? id : unknown_;
        tokens.push_back(token);
      }
    }
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  ByteTrie trie_;
  double unknown_score_ = 0;
  int32_t unknown_ = -1;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const JsonField& field) { return std::make_unique<UnigramModel>(field); }

}  // namespace easydel
