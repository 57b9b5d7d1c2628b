// UTF-8: whether bytes are valid, and steps through text that is known to be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace easydel {

// The position of the first byte that is no part of valid UTF-8, or npos.
std::size_t invalid_utf8(std::string_view text);

}  // namespace easydel

namespace easydel::utf8 {

// How many bytes the first character of `text` has; 0 when they are not valid UTF-8.
std::size_t valid_length(std::string_view text);

inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

inline std::size_t length_of_lead(char byte) {
  const auto lead = static_cast<unsigned char>(byte);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The code point at `at`, which is advanced past it.
inline char32_t next(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(at + i) & 63u);
  at += length;
  return code;
}

inline char32_t first(std::string_view text) {
  std::size_t at = 0;
  return next(text, at);
}

// The code point that ends at `at`, which is moved to its start.
inline char32_t previous(std::string_view text, std::size_t& at) {
  do --at;
  while (is_continuation(text[at]));
  std::size_t i = at;
  return next(text, i);
}

inline std::size_t size_of(char32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

inline void append(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const std::size_t length = size_of(code);
  constexpr unsigned char kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  char bytes[4];
  for (std::size_t i = length - 1; i > 0; --i) {
    bytes[i] = static_cast<char>(0x80 | (code & 63));
    code >>= 6;
  }
  bytes[0] = static_cast<char>(kLead[length] | code);
  out.append(bytes, length);
}

inline std::string encode(char32_t code) {
  std::string out;
  append(out, code);
  return out;
}

inline std::size_t count(std::string_view text) {
  std::size_t total = 0;
  for (const char byte : text) total += is_continuation(byte) ? 0 : 1;
  return total;
}

// Replaces invalid UTF-8 by U+FFFD, one for each maximal subpart, as Rust and browsers do.
std::string lossy(std::string_view bytes);

}  // namespace easydel::utf8
