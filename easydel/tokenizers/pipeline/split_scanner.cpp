#include "easydel/tokenizers/pipeline/split_scanner.h"

#include <array>

#include "easydel/core/build_info.h"
#include "easydel/core/text/utf8.h"
#include "easydel/text/unicode/unicode.h"

namespace easydel {
namespace {

using unicode::Kind;

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<Kind, 128> ascii_kinds() {
  std::array<Kind, 128> kinds{};
  for (unsigned c = 0; c < 128; ++c) {
    if ((c | 32) >= 'a' && (c | 32) <= 'z') kinds[c] = Kind::kLetter;
    if (c >= '0' && c <= '9') kinds[c] = Kind::kNumber;
    if (c == ' ' || (c >= 9 && c <= 13)) kinds[c] = Kind::kSpace;
  }
  return kinds;
}
constexpr std::array<Kind, 128> kAscii = ascii_kinds();

struct Seen {
  Kind kind;
  uint32_t size;
};

inline Seen look(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {kAscii[byte], 1};
  std::size_t behind = at;
  const char32_t code = utf8::next(text, behind);
  return {unicode::kind_of(code), static_cast<uint32_t>(behind - at)};
}

inline std::size_t run_of(Kind kind, std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Seen seen = look(text, at);
    if (seen.kind != kind) break;
    at += seen.size;
  }
  return at;
}

// 's, 't, 're, 've, 'm, 'll and 'd at the apostrophe; `at` when there is none.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  const auto letter = [&](std::size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = letter(at + 1);
  const char second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return at + 3;
  // The long s is an s in any case.
  if (any_case && text.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
  return at;
}

// \s+(?!\S)|\s+ over a run of white space that ends at `end`: the last of several is left for the next word.
std::size_t end_of_blanks(std::string_view text, std::size_t at, std::size_t end) {
  if (end == text.size()) return end;
  std::size_t last = end;
  utf8::previous(text, last);
  return last > at ? last : end;
}

std::size_t gpt2(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const std::size_t end = contraction(text, at, false); end > at) return end;
  }
  const std::size_t start = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  const Seen seen = look(text, start);
  if (seen.kind != Kind::kSpace) return run_of(seen.kind, text, start + seen.size);
  return end_of_blanks(text, at, run_of(Kind::kSpace, text, at));
}

std::size_t llama3(std::string_view text, std::size_t at, int digits) {
  const char c = text[at];
  if (c == '\'') {
    if (const std::size_t end = contraction(text, at, true); end > at) return end;
  }
  const Seen seen = look(text, at);
  const std::size_t behind = at + seen.size;
  if (seen.kind == Kind::kLetter) return run_of(Kind::kLetter, text, behind);
  if (seen.kind == Kind::kNumber) {
    std::size_t end = behind;
    for (int taken = 1; taken < digits && end < text.size(); ++taken) {
      const Seen next = look(text, end);
      if (next.kind != Kind::kNumber) break;
      end += next.size;
    }
    return end;
  }
  if (behind < text.size() && c != '\r' && c != '\n') {
    const Seen next = look(text, behind);
    if (next.kind == Kind::kLetter) return run_of(Kind::kLetter, text, behind + next.size);
    if (c == ' ' && next.kind == Kind::kOther) at = behind;  // the space before a run of symbols
  }
  const bool is_symbol = seen.kind == Kind::kOther || at == behind;
  if (is_symbol) {
    std::size_t end = run_of(Kind::kOther, text, behind);
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  const std::size_t end = run_of(Kind::kSpace, text, at);
  for (std::size_t i = end; i > at; --i) {
    if (text[i - 1] == '\r' || text[i - 1] == '\n') return i;
  }
  return end_of_blanks(text, at, end);
}

}  // namespace

std::optional<KnownSplit> known_split(std::string_view pattern) {
#if EASYDEL_HAS_UTF8PROC
  if (pattern == kGpt2Pattern) return KnownSplit::kGpt2;
  if (pattern == kLlama3Pattern) return KnownSplit::kThreeDigits;
  if (pattern == kQwen2Pattern) return KnownSplit::kOneDigit;
#endif
  return std::nullopt;
}

std::size_t end_of_word(KnownSplit split, std::string_view text, std::size_t at) {
  switch (split) {
    case KnownSplit::kGpt2: return gpt2(text, at);
    case KnownSplit::kThreeDigits: return llama3(text, at, 3);
    case KnownSplit::kOneDigit: break;
  }
  return llama3(text, at, 1);
}

}  // namespace easydel
