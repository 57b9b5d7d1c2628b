#include "easydel/core/text/bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "easydel/core/error.h"

namespace easydel {
namespace {

struct Unit {
  std::string_view name;  // upper case
  double bytes;
};

constexpr std::array<Unit, 9> kUnits{{{"B", 1},
                                      {"KB", 1e3},
                                      {"MB", 1e6},
                                      {"GB", 1e9},
                                      {"TB", 1e12},
                                      {"KIB", 1024.0},
                                      {"MIB", 1024.0 * 1024},
                                      {"GIB", 1024.0 * 1024 * 1024},
                                      {"TIB", 1024.0 * 1024 * 1024 * 1024}}};

}  // namespace

int64_t parse_bytes(std::string_view text) {
  const auto refuse = [&] {
    fail<ConfigError>(
        "[parse_bytes] a size must be a number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 5GB; got \"",
        text, "\".");
  };
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || number < 0) refuse();
  std::string unit(end, text.data() + text.size());
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto* found = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
  if (found == kUnits.end()) refuse();  // a bare number too, which is rarely meant as bytes
  const double bytes = number * found->bytes;
  if (!(bytes < 9.2e18)) refuse();
  return std::llround(bytes);
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array<const char*, 6> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kNames[unit]);
  return buffer.data();
}

std::string group_digits(int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace easydel
