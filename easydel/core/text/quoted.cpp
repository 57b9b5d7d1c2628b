#include "easydel/core/text/quoted.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace easydel {
namespace {

constexpr std::size_t kShown = 100;  // bytes of a quoted text

// The character at `at` and its length in bytes; none when the bytes are not UTF-8.
struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1};
  const std::size_t count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (count == 0 || first > 0xf4 || text.size() - at < count) return {};
  char32_t code = first & (0xff >> (count + 1));
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  const bool is_shorter = code < (count == 3 ? 0x800 : count == 4 ? 0x10000 : 0x80);
  if (is_shorter || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, count};
}

// Characters that a terminal acts on: control characters, and marks that change the text direction.
bool is_active(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x2028 || c == 0x2029 ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void append_escape(std::string& out, const char* format, unsigned value) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  out += buffer.data();
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (bytes == 0) {
      append_escape(out, "\\x%02x", static_cast<unsigned char>(text[at++]));
      continue;
    }
    const bool is_break = code == '\n' || code == '\t' || code == '\r';
    if (quotes && (code == '"' || code == '\\')) {
      out += {'\\', static_cast<char>(code)};
    } else if (is_break && (quotes || code == '\r')) {
      out += {'\\', code == '\n' ? 'n' : code == '\t' ? 't' : 'r'};
    } else if (is_active(code) && !is_break) {
      append_escape(out, "\\u%04x", static_cast<unsigned>(code));
    } else {
      out += text.substr(at, bytes);
    }
    at += bytes;
  }
  return out;
}

// Not in the middle of a character.
std::string_view cut(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, Quoted quoted) {
  const std::string_view shown = cut(quoted.text, kShown);
  return out << '"' << escaped(shown, true) << '"' << (shown.size() < quoted.text.size() ? "…" : "");
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  const std::string_view shown = cut(text, max_bytes);
  return escaped(shown, false) + (shown.size() < text.size() ? "…" : "");
}

}  // namespace easydel
