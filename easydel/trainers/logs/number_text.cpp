#include "easydel/trainers/logs/number_text.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "easydel/core/text/bytes.h"

namespace easydel {

std::string formatted(const char* format, double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e5)) return formatted("%.2e", value);
  return formatted(size < 10 ? "%.4f" : size < 1000 ? "%.2f" : "%.0f", value);
}

std::string tokens_per_second_text(double tokens) {
  if (tokens >= 1e6) return formatted("%.2fM tok/s", tokens / 1e6);
  if (tokens >= 1e4) return formatted("%.1fk tok/s", tokens / 1e3);
  return group_digits(std::llround(tokens)) + " tok/s";
}

std::string date_text(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (!std::isfinite(seconds) || ::gmtime_r(&whole, &parts) == nullptr) return "";
  std::array<char, 64> buffer{};
  return {buffer.data(), std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace easydel
