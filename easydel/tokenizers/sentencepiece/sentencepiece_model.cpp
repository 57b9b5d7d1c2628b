#include "easydel/tokenizers/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxFile = std::size_t{256} << 20;  // the largest public vocabularies take some 20 MB
constexpr std::size_t kMaxPieces = std::size_t{1} << 24;
constexpr std::size_t kMaxNormalizerMatches = 32;   // Normalizer::kMaxTrieResultsSize
constexpr std::size_t kMaxUserDefinedMatches = 64;  // kResultSize in PrefixMatcher::PrefixMatch
constexpr std::size_t kMaxReplacement = 1024;       // bytes; Unicode's longest takes 33
constexpr std::size_t kSpaceBytes = 3;              // a blank becomes U+2581

// Protocol buffers on the wire, as far as a model needs them.
struct Field {
  uint32_t number = 0, wire = 0;
  uint64_t value = 0;      // a varint or a fixed number
  std::string_view bytes;  // of a length-delimited field
};

class Wire {
 public:
  Wire(std::string_view bytes, const std::string& where, const char* what) : rest_(bytes), where_(where), what_(what) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t tag = varint(5);
    field = {.number = static_cast<uint32_t>(tag >> 3), .wire = static_cast<uint32_t>(tag & 7)};
    check(tag <= UINT32_MAX && field.number > 0, "a field without a number");
    switch (field.wire) {
      case 0: field.value = varint(10); break;
      case 1: field.value = fixed(8); break;
      case 2: {
        const uint64_t size = varint(5);
        check(size <= rest_.size(), "a field that extends past the end");
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        break;
      }
      case 5: field.value = fixed(4); break;
      default: check(false, "a field of an unknown wire type");
    }
    return true;
  }

 private:
  void check(bool good, const char* problem) const {
    require<FormatError>(good, "[SentencePieceTokenizer] ", where_, " is not a sentencepiece model: ", what_, " has ",
                         problem, ". It may be truncated, or a Git LFS pointer.");
  }
  uint64_t varint(int longest) {
    uint64_t value = 0;
    for (int i = 0; i < longest; ++i) {
      check(!rest_.empty(), "a field that extends past the end");
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fU} << (7 * i);
      if (byte < 0x80) return value;
    }
    check(false, "a number that is too long");
    return 0;
  }
  uint64_t fixed(std::size_t size) {
    check(rest_.size() >= size, "a field that extends past the end");
    uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(rest_[i])} << (8 * i);
    rest_.remove_prefix(size);
    return value;
  }

  std::string_view rest_;
  const std::string& where_;
  const char* what_;
};

// A darts-clone double array: from a base, the byte b leads to the unit at base ^ b, if that unit has the label b.
class CharsMap {
 public:
  CharsMap(std::string_view blob, const std::string& where) : where_(where) {
    uint32_t size = 0;
    check(blob.size() > sizeof size, "it is too short");
    std::memcpy(&size, blob.data(), sizeof size);
    if constexpr (std::endian::native == std::endian::big) size = __builtin_bswap32(size);
    blob.remove_prefix(sizeof size);
    check(size >= 4 && size < blob.size(), "its size is invalid");
    trie_ = blob.substr(0, size / 4 * 4);
    replacements_ = blob.substr(size);
    check(replacements_.back() == '\0', "its replacements are not terminated");
    most_.assign(trie_.size() / 4, kUnseen);
  }

  // The maximum number of bytes that one byte becomes.
  std::size_t growth() {
    const std::size_t matches = matches_from(step(0), 0);
    check(matches <= kMaxNormalizerMatches, "more than 32 rules share a prefix");
    return growth_;
  }

 private:
  static constexpr uint8_t kUnseen = 255, kOpen = 254;

  void check(bool good, const char* problem) const {
    require<FormatError>(good, "[SentencePieceTokenizer] ", where_,
                         ": the normalizer's precompiled_charsmap is broken: ", problem, ".");
  }
  uint32_t unit(std::size_t i) const {
    uint32_t value;
    std::memcpy(&value, trie_.data() + 4 * i, 4);
    return std::endian::native == std::endian::big ? __builtin_bswap32(value) : value;
  }
  std::size_t step(std::size_t i) {
    const uint32_t value = unit(i);
    const std::size_t base = i ^ (std::size_t{value >> 10} << ((value & (1U << 9)) >> 6));
    check((base | 255) < trie_.size() / 4, "it points outside its array");
    return base;
  }

  // The maximum number of rules on one path. The depth is the length of a rule, so its check bounds the recursion.
  std::size_t matches_from(std::size_t base, std::size_t depth) {
    check(depth <= kMaxReplacement && most_[base] != kOpen, "it has a cycle");
    if (most_[base] != kUnseen) return most_[base];
    most_[base] = kOpen;
    std::size_t most = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const uint32_t child = unit(base ^ byte);
      if ((child & ((1U << 31) | 0xFF)) != byte) continue;
      const std::size_t next = step(base ^ byte);
      const bool ends = (child >> 8) & 1;
      if (ends) check_replacement(unit(next) & 0x7FFFFFFF);
      // The unit of the value has no label; a byte 0 would lead there.
      most = std::max(most, ends + matches_from(next, depth + 1));
      check(most <= kMaxNormalizerMatches, "more than 32 rules share a prefix");
    }
    return most_[base] = static_cast<uint8_t>(most);
  }
  void check_replacement(std::size_t at) {
    check(at < replacements_.size(), "a rule has no replacement");
    const std::string_view text = replacements_.substr(at, replacements_.find('\0', at) - at);
    check(text.size() <= kMaxReplacement, "a replacement is longer than 1024 bytes");
    check(invalid_utf8(text) == std::string_view::npos, "a replacement is not valid UTF-8");
    std::size_t size = 0;
    for (const char c : text) size += c == ' ' ? kSpaceBytes : 1;
    growth_ = std::max(growth_, size);
  }

  std::string_view trie_, replacements_;
  const std::string& where_;
  std::vector<uint8_t> most_;
  std::size_t growth_ = kSpaceBytes;
};

void check_normalizer(std::string_view bytes, const std::string& where, SentencePieceModelFacts& facts) {
  Wire wire(bytes, where, "normalizer_spec");
  for (Field field; wire.next(field);) {
    if (field.number == 2 && field.wire == 2 && !field.bytes.empty()) {
      facts.growth = std::max(facts.growth, CharsMap(field.bytes, where).growth());
    } else if (field.number == 3 && field.wire == 0) {
      facts.add_dummy_prefix = field.value != 0;
    }
  }
}

std::string_view check_piece(std::string_view bytes, std::size_t index, const std::string& where, bool& user_defined) {
  constexpr int kNormal = 1, kUserDefined = 4;
  std::string_view piece;
  int type = kNormal;
  Wire wire(bytes, where, "a piece");
  for (Field field; wire.next(field);) {
    if (field.number == 1 && field.wire == 2) piece = field.bytes;
    if (field.number == 2 && field.wire == 5) {
      require<FormatError>(std::isfinite(std::bit_cast<float>(static_cast<uint32_t>(field.value))),
                           "[SentencePieceTokenizer] ", where, ": the score of piece ", index, " is not a number.");
    }
    if (field.number == 3 && field.wire == 0) {
      const int given = static_cast<int>(field.value);
      if (given >= 1 && given <= 6) type = given;  // protocol buffers treat others as unknown fields
    }
  }
  user_defined = type == kUserDefined;
  require<FormatError>(!piece.empty(), "[SentencePieceTokenizer] ", where, ": piece ", index, " is empty.");
  require<FormatError>(piece.find('\0') == std::string_view::npos && invalid_utf8(piece) == std::string_view::npos,
                       "[SentencePieceTokenizer] ", where, ": piece ", index, " is not valid UTF-8.");
  return piece;
}

// The maximum number of them that are prefixes of one of them.
std::size_t most_nested(std::vector<std::string_view> pieces) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::string_view> open;
  std::size_t most = 0;
  for (const std::string_view piece : pieces) {
    while (!open.empty() && !piece.starts_with(open.back())) open.pop_back();
    open.push_back(piece);
    most = std::max(most, open.size());
  }
  return most;
}

}  // namespace

SentencePieceModelFacts check_sentencepiece_model(std::string_view bytes, const std::string& where) {
  require<FormatError>(!bytes.empty() && bytes.size() <= kMaxFile, "[SentencePieceTokenizer] ", where,
                       " must have between 1 byte and 256 MiB; got ", bytes.size(), " bytes.");
  SentencePieceModelFacts facts;
  std::vector<std::string_view> user_defined;
  Wire wire(bytes, where, "the model");
  for (Field field; wire.next(field);) {
    if (field.wire != 2) continue;
    if (field.number == 1) {
      bool is_user_defined = false;
      const std::string_view piece = check_piece(field.bytes, facts.pieces, where, is_user_defined);
      if (is_user_defined) user_defined.push_back(piece);
      facts.has_byte_names |= piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with(">");
      require<FormatError>(++facts.pieces <= kMaxPieces, "[SentencePieceTokenizer] ", where, " has more than ",
                           kMaxPieces, " pieces.");
    } else if (field.number == 2) {
      Wire trainer(field.bytes, where, "trainer_spec");
      for (Field inner; trainer.next(inner);) {
        if (inner.number == 35 && inner.wire == 0) facts.byte_fallback = inner.value != 0;
      }
    } else if (field.number == 4) {
      facts.tests_itself = true;
    } else if (field.number == 3 || field.number == 5) {
      SentencePieceModelFacts of_this = facts;
      check_normalizer(field.bytes, where, of_this);
      facts.growth = of_this.growth;
      if (field.number == 3) facts.add_dummy_prefix = of_this.add_dummy_prefix;
    }
  }
  require<FormatError>(facts.pieces > 0, "[SentencePieceTokenizer] ", where,
                       " is not a sentencepiece model: it has no pieces.");
  const std::size_t nested = most_nested(std::move(user_defined));
  require<FormatError>(nested <= kMaxUserDefinedMatches, "[SentencePieceTokenizer] ", where,
                       ": at most 64 user-defined pieces may share a prefix; got ", nested, ".");
  return facts;
}

}  // namespace easydel
