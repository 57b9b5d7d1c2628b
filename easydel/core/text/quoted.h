// Untrusted text made safe for messages: control characters are escaped, and long text is truncated.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

namespace easydel {

// Prints in quotes, escaped as in JSON; costs nothing until printed. Bytes that are not UTF-8 print as \xNN.
struct Quoted {
  std::string_view text;
};

// One for each kind of text: argument-dependent lookup would find std::quoted for a std::string.
inline Quoted quoted(std::string_view text) { return {text}; }
inline Quoted quoted(const std::string& text) { return {text}; }
inline Quoted quoted(std::string& text) { return {text}; }
inline Quoted quoted(const char* text) { return {text}; }

std::ostream& operator<<(std::ostream& out, Quoted quoted);

// Without quotes. Line breaks and tabs stay.
std::string printable(std::string_view text, std::size_t max_bytes = 8192);

}  // namespace easydel
