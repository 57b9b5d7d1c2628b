// The character map of sentencepiece: a double array trie from what is written to where its replacement stands.
#include "easydel/core/text/utf8.h"
#include "easydel/io/hub/base64.h"
#include "easydel/tokenizers/pipeline/normalizer.h"

namespace easydel {
namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const JsonField& field) {
    const JsonField map = field["precompiled_charsmap"];
    const auto bytes = base64_decode(map.as_string());
    if (!bytes) map.refuse("must be base64.");
    if (bytes->empty()) return;  // an empty map
    const auto word = [&](std::size_t at) {
      uint32_t value = 0;
      for (std::size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<unsigned char>((*bytes)[at + i])} << (8 * i);
      return value;
    };
    if (bytes->size() < 4) map.refuse("must start with the size of its trie; got ", bytes->size(), " bytes.");
    const std::size_t size = word(0);
    if (size % 4 != 0 || size > bytes->size() - 4) {
      map.refuse("says that its trie has ", size, " bytes; there are ", bytes->size() - 4, ".");
    }
    trie_.resize(size / 4);
    for (std::size_t i = 0; i < trie_.size(); ++i) trie_[i] = word(4 + 4 * i);
    normalized_ = bytes->substr(4 + size);
    if (invalid_utf8(normalized_) != std::string_view::npos) map.refuse("must contain UTF-8.");
    unicode::require_tables(field.path());
  }

  void normalize(AlignedText& text) const override {
    if (trie_.empty()) return;
    const std::string_view view = text.view();
    std::vector<unicode::Change> changes;
    changes.reserve(view.size());
    bool changed = false;
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t length = unicode::grapheme_length(view.substr(at));
      const std::string_view grapheme = view.substr(at, length);
      at += length;
      if (length < 6) {
        if (const auto replacement = look_up(grapheme)) {
          put(changes, grapheme, *replacement);
          changed = true;
          continue;
        }
      }
      for (std::size_t i = 0; i < length;) {
        const std::size_t begin = i;
        const char32_t code = utf8::next(grapheme, i);
        const std::string_view part = grapheme.substr(begin, i - begin);
        if (const auto replacement = look_up(part)) {
          put(changes, part, *replacement);
          changed = true;
        } else {
          changes.emplace_back(code, 0);
        }
      }
    }
    if (changed) text.transform(changes);
  }

 private:
  static void put(std::vector<unicode::Change>& changes, std::string_view old_part, std::string_view new_part) {
    const auto more = static_cast<int32_t>(utf8::count(new_part)) - static_cast<int32_t>(utf8::count(old_part));
    for (std::size_t at = 0; at < new_part.size();) changes.emplace_back(utf8::next(new_part, at), 0);
    for (int32_t i = 0; i < more; ++i) changes[changes.size() - 1 - static_cast<std::size_t>(i)].second = 1;
    if (more < 0 && !changes.empty()) changes.back().second += more;
  }

  // The replacement of the shortest key that `key` begins with.
  std::optional<std::string_view> look_up(std::string_view key) const {
    std::size_t node = 0;
    const auto step = [&](uint32_t unit) { node ^= std::size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); };
    step(trie_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= trie_.size()) break;
      const uint32_t unit = trie_[node];
      if ((unit & ((1u << 31) | 0xFF)) != byte) break;
      step(unit);
      if ((unit >> 8) & 1) {
        if (node >= trie_.size()) break;
        const std::size_t begin = trie_[node] & ((1u << 31) - 1);
        if (begin >= normalized_.size() || utf8::is_continuation(normalized_[begin])) break;
        const std::size_t end = normalized_.find('\0', begin);
        return std::string_view(normalized_).substr(begin, end == std::string::npos ? end : end - begin);
      }
    }
    return std::nullopt;
  }

  std::vector<uint32_t> trie_;
  std::string normalized_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const JsonField& field) { return std::make_unique<Precompiled>(field); }

}  // namespace easydel
