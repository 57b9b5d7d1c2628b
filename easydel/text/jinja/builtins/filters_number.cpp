#include <charconv>
#include <cmath>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/number_format.h"
#include "easydel/text/jinja/builtins/string_tools.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

// Strips single underscores between digits; empty when the text is not of that form.
std::string without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto digit = [&](std::size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return "";
  }
  return out;
}

int64_t truncated(double number) {
  if (std::isinf(number)) raise("cannot convert float infinity to integer");
  if (!(std::abs(number) < 9.2e18)) raise("an integer does not fit in 64 bits (a limit of this engine)");
  return static_cast<int64_t>(number);
}

Value absolute(Interpreter&, Args& args) {
  const auto [value] = bind<1>("abs", args, {"x"}, 1, 1);
  if (value.is(Type::Float)) return std::abs(value.number());
  if (!value.is_integral()) raise("bad operand type for abs(): '", type_name(value), "'");
  return value.integer() < 0 ? negative(value) : Value(value.integer());
}

Value to_float(Interpreter& in, Args& args) {
  const auto [value, otherwise] = bind<2>("float", args, {"value", "default"}, 1);
  refuse_undefined(value);
  double number = 0;
  if (value.is_number()) return value.number();
  if (value.is_string()) in.walk(value.text().size());
  if (value.is_string() && parse_python_float(value.text(), number)) return number;
  return otherwise.is_missing() ? Value(0.0) : otherwise;
}

Value to_int(Interpreter& in, Args& args) {
  const auto [value, otherwise, base] = bind<3>("int", args, {"value", "default", "base"}, 1);
  refuse_undefined(value);
  const Value fallback = otherwise.is_missing() ? Value(int64_t{0}) : otherwise;
  if (value.is_integral()) return value.integer();
  if (value.is(Type::Float)) return std::isnan(value.number()) ? fallback : Value(truncated(value.number()));
  if (!value.is_string()) return fallback;
  in.walk(value.text().size());
  int64_t whole = 0;
  double number = 0;
  const int64_t in_base = base.is_missing() ? 10 : base.is_integral() ? base.integer() : -1;
  if (in_base >= 0 && in_base <= 36 && in_base != 1 &&
      parse_python_int(value.text(), static_cast<int>(in_base), whole)) {
    return whole;
  }
  if (!parse_python_float(value.text(), number) || !std::isfinite(number)) return fallback;
  return truncated(number);
}

double round_to(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 323) return number;
  if (digits < -308) return std::copysign(0.0, number);
  if (digits >= 0) {
    double out = 0;
    const std::string text = print_real(number, 'f', static_cast<int>(digits), false);
    std::from_chars(text.data(), text.data() + text.size(), out);
    return out;
  }
  const long double unit = std::pow(10.0L, static_cast<long double>(-digits));
  return static_cast<double>(std::nearbyint(static_cast<long double>(number) / unit) * unit);
}

int64_t round_to(int64_t number, int64_t digits) {
  if (digits >= 0) return number;
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  int64_t whole = number / unit;
  const int64_t rest = number % unit;
  const int64_t size = rest < 0 ? -rest : rest;
  if (size > unit - size || (size == unit - size && whole % 2 != 0)) whole += number < 0 ? -1 : 1;
  return checked_multiply(whole, unit);
}

Value round_filter(Interpreter& in, Args& args) {
  const auto [value, precision, method] = bind<3>("round", args, {"value", "precision", "method"}, 1);
  const std::string how = method.is_string() ? method.text() : method.is_missing() ? "common" : "";
  if (how != "common" && how != "ceil" && how != "floor") raise("method must be common, ceil or floor");
  if (how == "common") {
    if (!value.is_number()) raise("type ", type_name(value), " doesn't define __round__ method");
    if (precision.is_none())
      return round_to(
          value.is_integral() ? Value(value.integer()).integer() : truncated(std::nearbyint(value.number())), 0);
    const int64_t digits = integer_argument("round", precision, 0);
    if (!value.is_integral()) in.spend(500);  // hundreds of digits may be printed
    return value.is_integral() ? Value(round_to(value.integer(), digits)) : Value(round_to(value.number(), digits));
  }
  const Value unit =
      binary(in, Operator::Power, Value(int64_t{10}), precision.is_missing() ? Value(int64_t{0}) : precision);
  const Value scaled = binary(in, Operator::Multiply, value, unit);
  if (!scaled.is_number()) raise("must be real number, not ", type_name(scaled));
  const Value whole = scaled.is_integral()
                          ? Value(scaled.integer())
                          : Value(truncated(how == "ceil" ? std::ceil(scaled.number()) : std::floor(scaled.number())));
  return binary(in, Operator::Divide, whole, unit);
}

Value file_size(Interpreter& in, Args& args) {
  const auto [value, binary_units] = bind<2>("filesizeformat", args, {"value", "binary"}, 1);
  double bytes = 0;
  refuse_undefined(value);
  if (value.is_string()) in.walk(value.text().size());
  if (value.is_number()) {
    bytes = value.number();
  } else if (!value.is_string() || !parse_python_float(value.text(), bytes)) {
    raise("could not convert to float: ", to_repr(in, value));
  }
  const bool binary = truth(in, binary_units);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return in.string("1 Byte");
  if (bytes < base) return in.string(concat(truncated(bytes), " Bytes"));
  static constexpr std::array<const char*, 8> kLetters{"k", "M", "G", "T", "P", "E", "Z", "Y"};
  double unit = base;
  std::size_t i = 0;
  for (; i < kLetters.size(); ++i) {
    unit *= base;
    if (bytes < unit) break;
  }
  i = std::min(i, kLetters.size() - 1);
  std::string prefix = binary ? (i == 0 ? "Ki" : std::string(kLetters[i]) + "i") : kLetters[i];
  return in.string(print_real(base * bytes / unit, 'f', 1, false) + " " + prefix + "B");
}

}  // namespace

bool parse_python_float(std::string_view text, double& out) {
  std::string digits = without_underscores(strip(text, true, true));
  if (digits.empty()) return false;
  const bool negative = digits[0] == '-';
  if (negative || digits[0] == '+') digits.erase(0, 1);
  if (digits.empty()) return false;
  std::string lower = digits;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "inf" || lower == "infinity") {
    out = HUGE_VAL;
  } else if (lower == "nan") {
    out = std::nan("");
  } else {
    if (!std::isdigit(static_cast<unsigned char>(digits[0])) && digits[0] != '.') return false;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    if (end != digits.data() + digits.size()) return false;
    if (error == std::errc::result_out_of_range)
      out = std::strtod(digits.c_str(), nullptr);
    else if (error != std::errc())
      return false;
  }
  if (negative) out = -out;
  return true;
}

bool parse_python_int(std::string_view text, int base, int64_t& out) {
  std::string digits = strip(text, true, true);
  if (digits.empty()) return false;
  const bool negative = digits[0] == '-';
  if (negative || digits[0] == '+') digits.erase(0, 1);
  if (digits.size() > 1 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      digits.erase(0, 2);
      if (digits.starts_with('_')) digits.erase(0, 1);
    } else if (base == 0 && digits.find_first_not_of("0_") != std::string::npos) {
      return false;
    }
  }
  if (base == 0) base = 10;
  digits = without_underscores(digits);
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return false;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return false;
  if (error != std::errc() || magnitude > static_cast<uint64_t>(INT64_MAX)) {
    raise("an integer does not fit in 64 bits (a limit of this engine)");
  }
  out = negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  return true;
}

std::vector<Builtin> number_filters() {
  return {
      {"abs", absolute}, {"filesizeformat", file_size}, {"float", to_float}, {"int", to_int}, {"round", round_filter}};
}

}  // namespace easydel::jinja
