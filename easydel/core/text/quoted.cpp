#include "easydel/core/text/quoted.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

constexpr std::size_t kShown = 100;  // bytes of a quoted text

// What a terminal acts on: control characters, and marks that turn the direction of the text.
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
    const std::size_t bytes = utf8::valid_length(text.substr(at));
    if (bytes == 0) {
      append_escape(out, "\\x%02x", static_cast<unsigned char>(text[at++]));
      continue;
    }
    const char32_t code = utf8::first(text.substr(at));
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
  while (end > 0 && utf8::is_continuation(text[end])) --end;
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
