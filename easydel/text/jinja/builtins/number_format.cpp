#include "easydel/text/jinja/builtins/number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace easydel::jinja {

std::string print_real(double value, char type, int precision, bool alternate) {
  if (!std::isfinite(value)) {
    const bool upper = type == 'E' || type == 'F' || type == 'G';
    std::string out = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (upper) std::transform(out.begin(), out.end(), out.begin(), [](char c) { return std::toupper(c); });
    return out;
  }
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + type;
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, value);
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.c_str(), precision, value);
  out.pop_back();
  return out;
}

std::string print_integer(int64_t value, int base, bool upper) {
  auto magnitude = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  // Not indexed in place: GCC 12's sanitizer would then check an uninitialized index.
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out += digits[magnitude % base];
    magnitude /= base;
  } while (magnitude > 0);
  std::reverse(out.begin(), out.end());
  return out;
}

// Zeros are prepended until the field is full, with their own separators.
std::string group_digits(const std::string& digits, char separator, int width) {
  const std::size_t group = separator == '_' && width < 0 ? 4 : 3;
  const std::size_t wanted = width > 0 ? static_cast<std::size_t>(width) : 0;
  std::string out;
  std::size_t count = 0;
  for (std::size_t i = digits.size(); i > 0 || out.size() < wanted; ++count) {
    if (count > 0 && count % group == 0) {
      out += separator;
      if (i == 0 && out.size() >= wanted) out += '0';
      if (i == 0 && out.size() >= wanted) break;
    }
    out += i > 0 ? digits[--i] : '0';
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::string pad(std::string text, std::size_t length, int64_t width, char align, const std::string& fill) {
  if (width <= static_cast<int64_t>(length)) return text;
  const auto missing = static_cast<std::size_t>(width) - length;
  const std::size_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  std::string out;
  for (std::size_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (std::size_t i = left; i < missing; ++i) out += fill;
  return out;
}

}  // namespace easydel::jinja
