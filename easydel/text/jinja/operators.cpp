#include "easydel/text/jinja/operators.h"

#include <cmath>

#include "easydel/text/jinja/builtins/format.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

constexpr const char* kOverflow = "an integer does not fit in 64 bits (a limit of this engine)";

const char* symbol(Operator op) {
  switch (op) {
    case Operator::Add: return "+";
    case Operator::Subtract: return "-";
    case Operator::Multiply: return "*";
    case Operator::Divide: return "/";
    case Operator::FloorDivide: return "//";
    case Operator::Modulo: return "%";
    case Operator::Power: return "** or pow()";
    case Operator::Less: return "<";
    case Operator::LessEqual: return "<=";
    case Operator::Greater: return ">";
    case Operator::GreaterEqual: return ">=";
    default: return "in";
  }
}

[[noreturn]] void unsupported(Operator op, const Value& a, const Value& b) {
  raise("unsupported operand type(s) for ", symbol(op), ": '", type_name(a), "' and '", type_name(b), "'");
}

double float_modulo(double a, double b) {
  if (b == 0) raise("float modulo");
  double result = std::fmod(a, b);
  if (result != 0) {
    if ((b < 0) != (result < 0)) result += b;
  } else {
    result = std::copysign(0.0, b);
  }
  return result;
}

double float_floor_divide(double a, double b) {
  if (b == 0) raise("float floor division by zero");
  const double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0.0, a / b);
  double floored = std::floor(div);
  if (div - floored > 0.5) floored += 1;
  return floored;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) raise("complex numbers are not supported");
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) raise("Numerical result out of range");
  return result;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return float_power(static_cast<double>(base), static_cast<double>(exponent));
  int64_t result = 1;
  while (true) {
    if (exponent & 1) result = checked_multiply(result, base);
    exponent >>= 1;
    if (exponent == 0) return result;
    base = checked_multiply(base, base);
  }
}

Value integer_arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::Add: return checked_add(a, b);
    case Operator::Subtract:
      if (__builtin_sub_overflow(a, b, &result)) raise(kOverflow);
      return result;
    case Operator::Multiply: return checked_multiply(a, b);
    case Operator::Divide:
      if (b == 0) raise("division by zero");
      if (std::abs(static_cast<double>(a)) < 0x1p53 && std::abs(static_cast<double>(b)) < 0x1p53) {
        return static_cast<double>(a) / static_cast<double>(b);
      }
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::Power: return integer_power(a, b);
    default: break;
  }
  if (b == 0) raise("integer division or modulo by zero");
  if (b == -1) return op == Operator::Modulo ? Value(int64_t{0}) : integer_arithmetic(Operator::Subtract, 0, a);
  const bool uneven = a % b != 0 && (a < 0) != (b < 0);
  if (op == Operator::FloorDivide) return a / b - (uneven ? 1 : 0);
  return a % b + (uneven ? b : 0);
}

Value float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::Add: return a + b;
    case Operator::Subtract: return a - b;
    case Operator::Multiply: return a * b;
    case Operator::Divide:
      if (b == 0) raise("float division by zero");
      return a / b;
    case Operator::FloorDivide: return float_floor_divide(a, b);
    case Operator::Modulo: return float_modulo(a, b);
    default: return float_power(a, b);
  }
}

bool is_sequence(const Value& value) { return value.is(Type::List) || value.is(Type::Tuple); }

Value add_strings(Runtime& runtime, const Value& a, const Value& b) {
  runtime.take(a.text().size() + b.text().size());
  runtime.give(a.text().size() + b.text().size());
  if (a.safe() == b.safe()) return runtime.string(a.text() + b.text(), a.safe());
  return runtime.string((a.safe() ? a.text() : escape_html(a.text())) + (b.safe() ? b.text() : escape_html(b.text())),
                        true);
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) raise(kOverflow);
  return result;
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) raise(kOverflow);
  return result;
}

void refuse_undefined(const Value& value) {
  if (value.is_undefined()) raise(value.as<UndefinedData>().message);
}

void refuse_strictly(const Runtime& runtime, const Value& value) {
  if (runtime.strict_undefined() && value.is_undefined() && !value.as<UndefinedData>().lenient) refuse_undefined(value);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

Value repeat(Runtime& runtime, const Value& sequence, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (sequence.is_string()) {
    const std::string& text = sequence.text();
    const auto size = static_cast<std::size_t>(checked_multiply(static_cast<int64_t>(text.size()), times));
    runtime.take(size);
    runtime.give(size);
    runtime.touch(size);
    std::string out;
    out.reserve(size);
    if (!text.empty()) {
      for (int64_t i = 0; i < times; ++i) out += text;
    }
    return runtime.string(std::move(out), sequence.safe());
  }
  const Values& items = sequence.as<ListData>().items;
  const auto count = static_cast<std::size_t>(checked_multiply(static_cast<int64_t>(items.size()), times));
  runtime.take(checked_multiply(static_cast<int64_t>(count), sizeof(Value)));
  runtime.give(count * sizeof(Value));
  runtime.spend(count);
  Values out;
  out.reserve(count);
  if (!items.empty()) {
    for (int64_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return sequence.is(Type::List) ? runtime.list(std::move(out)) : runtime.tuple(std::move(out));
}

Value binary(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (op == Operator::Modulo && a.is_string()) return format_percent(runtime, a, b);
  refuse_undefined(a);
  refuse_undefined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Type::Float) || b.is(Type::Float)) return float_arithmetic(op, a.number(), b.number());
    return integer_arithmetic(op, a.integer(), b.integer());
  }
  if (op == Operator::Add) {
    if (a.is_string() && b.is_string()) return add_strings(runtime, a, b);
    if (is_sequence(a) && a.type() == b.type()) {
      Values items = a.as<ListData>().items;
      const Values& more = b.as<ListData>().items;
      runtime.spend(items.size() + more.size());
      items.insert(items.end(), more.begin(), more.end());
      return a.is(Type::List) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
    }
    if (a.is_string()) raise("can only concatenate str (not \"", type_name(b), "\") to str");
    if (is_sequence(a)) {
      raise("can only concatenate ", type_name(a), " (not \"", type_name(b), "\") to ", type_name(a));
    }
  }
  if (op == Operator::Multiply) {
    if ((a.is_string() || is_sequence(a)) && b.is_integral()) return repeat(runtime, a, b.integer());
    if ((b.is_string() || is_sequence(b)) && a.is_integral()) return repeat(runtime, b, a.integer());
  }
  unsupported(op, a, b);
}

Value negative(const Value& value) {
  refuse_undefined(value);
  if (value.is(Type::Float)) return -value.number();
  if (value.is_integral()) return integer_arithmetic(Operator::Subtract, 0, value.integer());
  raise("bad operand type for unary -: '", type_name(value), "'");
}

Value positive(const Value& value) {
  refuse_undefined(value);
  if (value.is(Type::Float)) return value;
  if (value.is_integral()) return value.integer();
  raise("bad operand type for unary +: '", type_name(value), "'");
}

bool compare(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::Equal: return equal(runtime, a, b);
    case Operator::NotEqual: return !equal(runtime, a, b);
    case Operator::In: return contains(runtime, b, a);
    case Operator::NotIn: return !contains(runtime, b, a);
    default: return less(runtime, a, b, op);
  }
}

bool less(Runtime& runtime, const Value& a, const Value& b, Operator op) {
  const Nested nested(runtime);
  const auto decide = [op](const auto& x, const auto& y) {
    switch (op) {
      case Operator::Less: return x < y;
      case Operator::LessEqual: return x <= y;
      case Operator::Greater: return x > y;
      default: return x >= y;
    }
  };
  refuse_undefined(a);
  refuse_undefined(b);
  if (a.is_integral() && b.is_integral()) return decide(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) {
    const auto wide = [](const Value& v) {
      return v.is(Type::Float) ? static_cast<long double>(v.number()) : static_cast<long double>(v.integer());
    };
    return decide(wide(a), wide(b));  // a long double represents every 64-bit integer exactly
  }
  if (a.is_string() && b.is_string()) {
    runtime.touch(std::min(a.text().size(), b.text().size()));
    return decide(a.text(), b.text());  // UTF-8 byte order is code point order
  }
  if (is_sequence(a) && a.type() == b.type()) {
    const Values& x = a.as<ListData>().items;
    const Values& y = b.as<ListData>().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      runtime.spend(1);
      if (x[i].same(y[i]) || equal(runtime, x[i], y[i])) continue;
      return less(runtime, x[i], y[i], op);
    }
    return decide(x.size(), y.size());
  }
  raise("'", symbol(op), "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
}

}  // namespace easydel::jinja
