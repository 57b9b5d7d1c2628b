// Which plain scalars are numbers, booleans and null in YAML 1.1, by PyYAML's resolvers.
#include <algorithm>
#include <charconv>
#include <limits>

#include "easydel/elarge/yaml/yaml.h"

namespace easydel {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_digit_or_line(char c) { return is_digit(c) || c == '_'; }

// Takes the characters at the front that `test` accepts.
template <class Test>
std::string_view take(std::string_view& text, const Test& test) {
  const auto end = std::find_if_not(text.begin(), text.end(), test);
  const std::string_view taken = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(taken.size());
  return taken;
}

std::string without_underscores(std::string_view text) {
  std::string out(text);
  out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
  return out;
}

// Null when there are no digits: "0x_". A float when it is beyond 64 bits.
Json to_integer(std::string_view written, int base, bool negative) {
  const std::string digits = (negative ? "-" : "") + without_underscores(written);
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec == std::errc() && result.ptr == digits.data() + digits.size()) return value;
  if (result.ec != std::errc::result_out_of_range) return {};
  double large = 0;
  if (base == 10) {
    std::from_chars(digits.data(), digits.data() + digits.size(), large);
    return large;
  }
  for (const char c : digits) {
    if (c == '-') continue;
    large = large * base + (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return negative ? -large : large;
}

double to_float(std::string_view written) {
  const std::string digits = without_underscores(written);
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc::result_out_of_range) return value;
  const std::size_t exponent = digits.find_first_of("eE");
  const bool small = exponent != std::string::npos && digits.compare(exponent + 1, 1, "-") == 0;
  return small ? 0.0 : std::numeric_limits<double>::infinity();
}

// The rest of "190:20:30.15" behind its first number: each part below 60. False when it is something else.
bool take_sixties(std::string_view& text, double& value) {
  bool any = false;
  while (!text.empty() && text.front() == ':') {
    std::string_view rest = text.substr(1);
    const std::string_view part = take(rest, is_digit);
    if (part.empty() || part.size() > 2 || (part.size() == 2 && part[0] > '5')) return false;
    value = value * 60 + to_float(part);
    text = rest;
    any = true;
  }
  return any;
}

// Null when it is none, also where the text has more behind it.
Json find_integer(std::string_view text, bool negative) {
  if (text.starts_with("0b") || text.starts_with("0x")) {
    const int base = text[1] == 'b' ? 2 : 16;
    text.remove_prefix(2);
    const bool all = std::all_of(text.begin(), text.end(), [&](char c) {
      const char lower = static_cast<char>(c | 0x20);
      return base == 2 ? c == '0' || c == '1' || c == '_' : is_digit_or_line(c) || (lower >= 'a' && lower <= 'f');
    });
    return all && !text.empty() ? to_integer(text, base, negative) : Json();
  }
  if (text.empty() || !is_digit(text.front())) return {};
  if (text == "0") return 0;
  std::string_view rest = text;
  const std::string_view whole = take(rest, is_digit_or_line);
  if (whole.front() == '0') {
    const bool octal = std::all_of(whole.begin(), whole.end(), [](char c) { return c < '8' || c == '_'; });
    return rest.empty() && octal ? to_integer(whole, 8, negative) : Json();
  }
  if (rest.empty()) return to_integer(whole, 10, negative);
  double sixties = to_float(whole);
  if (!take_sixties(rest, sixties) || !rest.empty()) return {};
  if (sixties >= 9e15) return negative ? -sixties : sixties;
  return static_cast<int64_t>(negative ? -sixties : sixties);
}

Json find_float(std::string_view text, bool negative, bool has_sign) {
  const auto with_sign = [&](double value) { return Json(negative ? -value : value); };
  if (text == ".inf" || text == ".Inf" || text == ".INF") return with_sign(std::numeric_limits<double>::infinity());
  if (!has_sign && (text == ".nan" || text == ".NaN" || text == ".NAN")) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::string_view rest = text;
  const std::string_view whole = !rest.empty() && is_digit(rest.front()) ? take(rest, is_digit_or_line) : "";
  if (!whole.empty() && rest.starts_with(':')) {
    double value = to_float(whole);
    if (!take_sixties(rest, value) || !rest.starts_with('.')) return {};
    rest.remove_prefix(1);
    const std::string fraction = without_underscores(take(rest, is_digit_or_line));
    if (!rest.empty()) return {};
    return with_sign(value + (fraction.empty() ? 0.0 : to_float("0." + fraction)));
  }
  if (!rest.starts_with('.') || (whole.empty() && has_sign)) return {};
  rest.remove_prefix(1);
  if (whole.empty() && (rest.empty() || !is_digit(rest.front()))) return {};
  take(rest, is_digit_or_line);
  if (!rest.empty()) {
    if (rest.size() < 3 || (rest[0] != 'e' && rest[0] != 'E') || (rest[1] != '-' && rest[1] != '+')) return {};
    rest.remove_prefix(2);
    take(rest, is_digit);
    if (!rest.empty()) return {};
  }
  return with_sign(to_float(text));
}

}  // namespace

Json resolve_yaml_scalar(std::string_view text) {
  if (text.empty() || text == "~") return {};
  std::string lower;
  for (const char c : text.substr(0, 6)) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  // Small letters, capitals, or one capital at the front; not "tRUE".
  const bool cased =
      text.size() <= 5 &&
      (text == lower || std::all_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; }) ||
       (text[0] != lower[0] && text.substr(1) == std::string_view(lower).substr(1)));
  if (cased) {
    if (lower == "null") return {};
    if (lower == "yes" || lower == "true" || lower == "on") return true;
    if (lower == "no" || lower == "false" || lower == "off") return false;
  }
  const bool has_sign = text.front() == '-' || text.front() == '+';
  const std::string_view number = text.substr(has_sign ? 1 : 0);
  if (Json value = find_integer(number, text.front() == '-'); !value.is_null()) return value;
  if (Json value = find_float(number, text.front() == '-', has_sign); !value.is_null()) return value;
  return text;
}

}  // namespace easydel
