#include "easydel/text/jinja/builtins/unicode.h"

#include <span>

#include "easydel/core/text/utf8.h"

namespace easydel::jinja {
namespace {

#include "easydel/text/jinja/builtins/unicode_tables.inc"

using Table = std::span<const int32_t>;

// The entry of the given width whose [first, last] contains c, or null.
const int32_t* find_entry(Table table, std::size_t width, int32_t c) {
  std::size_t low = 0;
  std::size_t high = table.size() / width;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (table[middle * width + 1] < c) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const bool found = low * width < table.size() && table[low * width] <= c;
  return found ? &table[low * width] : nullptr;
}

bool contains(Table table, char32_t c) { return find_entry(table, 2, static_cast<int32_t>(c)) != nullptr; }

struct Mapping {
  Table single, several;
};
constexpr Mapping kLowerMapping{kToLower, kToLowerSeveral};
constexpr Mapping kUpperMapping{kToUpper, kToUpperSeveral};
constexpr Mapping kTitleMapping{kToTitle, kToTitleSeveral};
constexpr Mapping kFoldMapping{kToFold, kToFoldSeveral};

void append_mapped(std::string& out, const Mapping& mapping, char32_t c) {
  const auto code = static_cast<int32_t>(c);
  if (code < 0x80) {  // the common case
    const bool small = c >= 'a' && c <= 'z';
    const bool large = c >= 'A' && c <= 'Z';
    const bool lowers = mapping.single.data() == kToLower || mapping.single.data() == kToFold;
    out += static_cast<char>(lowers ? (large ? c + 32 : c) : (small ? c - 32 : c));
    return;
  }
  if (const int32_t* entry = find_entry(mapping.single, 4, code); entry && (code - entry[0]) % entry[2] == 0) {
    append_character(out, static_cast<char32_t>(code + entry[3]));
    return;
  }
  for (std::size_t i = 0; i + 1 < mapping.several.size(); i += 2 + mapping.several[i + 1]) {
    if (mapping.several[i] != code) continue;
    for (int32_t k = 0; k < mapping.several[i + 1]; ++k) {
      append_character(out, static_cast<char32_t>(mapping.several[i + 2 + k]));
    }
    return;
  }
  append_character(out, c);
}

bool is_cased(char32_t c) { return contains(kCased, c); }

// A sigma is final if a cased letter precedes it and none follows, ignoring case-ignorable characters.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t end) {
  bool before = false;
  while (begin > 0) {
    const char32_t c = last_character(text, begin);
    if (contains(kCaseIgnored, c)) continue;
    before = is_cased(c);
    break;
  }
  if (!before) return false;
  while (end < text.size()) {
    const char32_t c = next_character(text, end);
    if (!contains(kCaseIgnored, c)) return !is_cased(c);
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t begin, std::size_t end, char32_t c) {
  if (c == 0x3A3) {
    append_character(out, is_final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    append_mapped(out, kLowerMapping, c);
  }
}

template <class Each>
std::string map_each(std::string_view text, const Each& each) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t begin = byte;
    const char32_t c = next_character(text, byte);
    each(out, c, begin, byte);
  }
  return out;
}

}  // namespace

std::size_t count_characters(std::string_view text) { return utf8::count(text); }

std::size_t byte_of_character(std::string_view text, std::size_t index) {
  std::size_t byte = 0;
  for (; index > 0 && byte < text.size(); --index) next_character(text, byte);
  return byte;
}

char32_t next_character(std::string_view text, std::size_t& byte) {
  if (utf8::length_of_lead(text[byte]) <= text.size() - byte) return utf8::next(text, byte);
  byte = text.size();
  return 0xFFFD;
}

char32_t last_character(std::string_view text, std::size_t& end) {
  do {
    --end;
  } while (end > 0 && utf8::is_continuation(text[end]));
  std::size_t byte = end;
  return next_character(text, byte);
}

void append_character(std::string& out, char32_t c) { utf8::append(out, c); }

std::vector<char32_t> characters(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  for (std::size_t byte = 0; byte < text.size();) out.push_back(next_character(text, byte));
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) { return contains(kAlpha, c); }
bool is_decimal(char32_t c) { return contains(kDecimal, c); }
bool is_digit(char32_t c) { return contains(kDigit, c); }
bool is_numeric(char32_t c) { return contains(kNumeric, c); }
bool is_alnum(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }
bool is_lower(char32_t c) { return contains(kLower, c); }
bool is_upper(char32_t c) { return contains(kUpper, c); }
bool is_title(char32_t c) { return contains(kTitle, c); }
bool is_printable(char32_t c) { return c >= 0x20 && (c < 0x7F || contains(kPrintable, c)); }

std::string to_lower(std::string_view text) {
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    append_lower(out, text, begin, end, c);
  });
}

std::string to_upper(std::string_view text) {
  return map_each(text, [](std::string& out, char32_t c, auto, auto) { append_mapped(out, kUpperMapping, c); });
}

std::string case_folded(std::string_view text) {
  return map_each(text, [](std::string& out, char32_t c, auto, auto) { append_mapped(out, kFoldMapping, c); });
}

std::string to_title(std::string_view text) {
  bool inside = false;
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    if (inside) {
      append_lower(out, text, begin, end, c);
    } else {
      append_mapped(out, kTitleMapping, c);
    }
    inside = is_cased(c);
  });
}

std::string capitalized(std::string_view text) {
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    if (begin > 0) {
      append_lower(out, text, begin, end, c);
    } else {
      append_mapped(out, kTitleMapping, c);
    }
  });
}

std::string swapped_case(std::string_view text) {
  return map_each(text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    if (is_upper(c)) {
      append_lower(out, text, begin, end, c);
    } else if (is_lower(c)) {
      append_mapped(out, kUpperMapping, c);
    } else {
      append_character(out, c);
    }
  });
}

}  // namespace easydel::jinja
