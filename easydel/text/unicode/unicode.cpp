#include "easydel/text/unicode/unicode.h"

#include <algorithm>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"

#if EASYDEL_HAS_UTF8PROC
#include <utf8proc.h>
#endif

namespace easydel::unicode {
namespace {

bool is_ascii_punctuation(char32_t code) {
  return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
         (code >= '{' && code <= '~');
}

bool is_ascii_letter(char32_t code) { return (code | 32) >= 'a' && (code | 32) <= 'z'; }

struct Range {
  char32_t first, last;
};

#include "easydel/text/unicode/package_tables.inc"

template <std::size_t N>
bool contains(const Range (&ranges)[N], char32_t code) {
  const auto* above =
      std::upper_bound(ranges, ranges + N, code, [](char32_t c, const Range& r) { return c < r.first; });
  return above != ranges && code <= above[-1].last;
}

}  // namespace

bool is_punctuation(char32_t code) { return code < 0x80 ? is_ascii_punctuation(code) : contains(kPunctuation, code); }
bool is_mark(char32_t code) { return code >= 0x300 && contains(kMarks, code); }
bool is_nonspacing_mark(char32_t code) { return code >= 0x300 && contains(kNonspacingMarks, code); }
bool is_other(char32_t code) { return code < 0x80 ? code < 0x20 || code == 0x7F : contains(kOther, code); }

bool is_whitespace(char32_t code) {
  if (code < 0x85) return code == ' ' || (code >= 9 && code <= 13);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

#if EASYDEL_HAS_UTF8PROC
namespace {

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_letter_category(utf8proc_category_t c) { return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO; }

// Alphabetic characters that are neither L nor M nor Nl: circled and squared letters.
bool is_enclosed_letter(char32_t code) {
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

// The lower case of capitals that Rust has and not every utf8proc does; 0 for others.
char32_t newest_lower(char32_t code) {
  switch (code) {
    case 0x1C89: return 0x1C8A;
    case 0xA7CB: return 0x264;
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA: return code + 1;
    case 0xA7DC: return 0x19B;
    default: break;
  }
  if (code >= 0x10D50 && code <= 0x10D65) return code + 0x20;
  return code >= 0x16EA0 && code <= 0x16EB8 ? code + 0x1B : 0;
}

}  // namespace

void require_tables(std::string_view) {}

bool is_numeric(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t code) {
  if (code < 0x80) return is_ascii_letter(code) || (code >= '0' && code <= '9') || code == '_';
  const auto c = category(code);
  return is_letter_category(c) || (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_NL) ||
         c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D || is_enclosed_letter(code);
}

Kind kind_of(char32_t code) {
  if (code < 0x80) {
    if (is_ascii_letter(code)) return Kind::kLetter;
    if (code >= '0' && code <= '9') return Kind::kNumber;
    return is_whitespace(code) ? Kind::kSpace : Kind::kOther;
  }
  const auto c = category(code);
  if (is_letter_category(c)) return Kind::kLetter;
  if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) return Kind::kNumber;
  return is_whitespace(code) ? Kind::kSpace : Kind::kOther;
}

char32_t to_lower(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  const char32_t newest = code < 0x1C89 ? 0 : newest_lower(code);
  return newest ? newest : static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

std::size_t grapheme_length(std::string_view text) {
  std::size_t at = 0;
  char32_t before = utf8::next(text, at);
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    std::size_t behind = at;
    const char32_t code = utf8::next(text, behind);
    const bool both_plain = before < 0x300 && code < 0x300 && before >= 0x20 && code >= 0x20 && before != 0xA9 &&
                            before != 0xAE && code != 0xAD;
    if (both_plain || utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                                       static_cast<utf8proc_int32_t>(code), &state)) {
      break;
    }
    before = code;
    at = behind;
  }
  return at;
}

#else

void require_tables(std::string_view who) {
  fail<NotSupportedError>("[", who, "] needs Unicode tables, which this build lacks. Install ",
                          "libutf8proc-dev and build again.");
}

bool is_numeric(char32_t code) { return code >= '0' && code <= '9'; }
bool is_word(char32_t code) { return is_ascii_letter(code) || is_numeric(code) || code == '_'; }
Kind kind_of(char32_t code) {
  if (is_ascii_letter(code)) return Kind::kLetter;
  if (is_numeric(code)) return Kind::kNumber;
  return is_whitespace(code) ? Kind::kSpace : Kind::kOther;
}
char32_t to_lower(char32_t code) { return code >= 'A' && code <= 'Z' ? code + 32 : code; }
std::size_t grapheme_length(std::string_view text) { return utf8::length_of_lead(text[0]); }

#endif

}  // namespace easydel::unicode
