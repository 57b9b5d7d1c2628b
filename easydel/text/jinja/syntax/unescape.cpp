#include "easydel/text/jinja/syntax/unescape.h"

#include <array>
#include <cctype>
#include <cstdio>

#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/syntax/lexer.h"

namespace easydel::jinja {
namespace {

// Jinja first writes every non-ASCII character as an escape, and a backslash before it then escapes that escape's
// backslash.
std::string ascii_only(std::string_view literal) {
  std::string out;
  for (std::size_t byte = 0; byte < literal.size();) {
    const char32_t c = next_character(literal, byte);
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    std::array<char, 16> escape{};
    std::snprintf(escape.data(), escape.size(),
                  c < 0x100     ? "\\x%02x"
                  : c < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                  static_cast<unsigned>(c));
    out += escape.data();
  }
  return out;
}

}  // namespace

std::string unescape(std::string_view literal, int line) {
  if (literal.find('\\') == std::string_view::npos) return std::string(literal);
  const std::string text = ascii_only(literal);
  std::string out;
  const auto hex = [&](std::size_t& at, std::size_t count, const char* form) {
    char32_t c = 0;
    for (std::size_t i = 0; i < count; ++i, ++at) {
      if (at >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[at]))) {
        raise_syntax(line, std::string("truncated ") + form + " escape");
      }
      c = c * 16 + static_cast<char32_t>(std::isdigit(static_cast<unsigned char>(text[at]))
                                             ? text[at] - '0'
                                             : (text[at] | 0x20) - 'a' + 10);
    }
    if (c > 0x10FFFF) raise_syntax(line, "illegal Unicode character");
    if (c >= 0xD800 && c <= 0xDFFF) raise_syntax(line, "a surrogate is not a character; write the character itself");
    append_character(out, c);
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    if (++at >= text.size()) raise_syntax(line, "\\ at end of string");
    const char c = text[at++];
    switch (c) {
      case '\n': break;
      case '\\':
      case '\'':
      case '"': out += c; break;
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'v': out += '\v'; break;
      case 'x': hex(at, 2, "\\xXX"); break;
      case 'u': hex(at, 4, "\\uXXXX"); break;
      case 'U': hex(at, 8, "\\UXXXXXXXX"); break;
      case 'N': raise_syntax(line, "names of characters (\\N) are not supported; write the character itself");
      default:
        if (c < '0' || c > '7') {
          out += '\\';
          out += c;
          break;
        }
        char32_t octal = static_cast<char32_t>(c - '0');
        for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i, ++at) {
          octal = octal * 8 + static_cast<char32_t>(text[at] - '0');
        }
        append_character(out, octal);
    }
  }
  return out;
}

}  // namespace easydel::jinja
