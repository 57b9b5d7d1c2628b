#include <algorithm>
#include <cmath>

#include "easydel/text/jinja/builtins/format.h"
#include "easydel/text/jinja/builtins/number_format.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool alternate = false;
  int64_t width = -1, precision = -1;
};

bool is_align(char32_t c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Spec parse_spec(std::string_view text, const Value& value) {
  Spec spec;
  std::size_t at = 0;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto number = [&] {
    int64_t out = 0;
    while (peek() >= '0' && peek() <= '9') {
      out = out * 10 + (text[at++] - '0');
      if (out > INT32_MAX) raise("Too many decimal digits in format string");
    }
    return out;
  };
  if (!text.empty()) {
    std::size_t after = 0;
    const char32_t first = next_character(text, after);
    if (after < text.size() && is_align(text[after])) {
      spec.fill.clear();
      append_character(spec.fill, first);
      spec.align = text[after];
      at = after + 1;
    } else if (is_align(first)) {
      spec.align = static_cast<char>(first);
      at = after;
    }
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') {
    spec.sign = text[at++];
    if (value.is_string()) raise("Sign not allowed in string format specifier");
  }
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
    if (value.is_string()) raise("Alternate form (#) not allowed in string format specifier");
  }
  if (peek() == '0') {
    ++at;
    if (spec.align == '\0') {
      spec.fill = "0";
      if (!value.is_string()) spec.align = '=';
    }
  }
  if (peek() >= '0' && peek() <= '9') spec.width = number();
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') raise("Format specifier missing precision");
    spec.precision = number();
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) raise("Invalid format specifier");
  return spec;
}

[[noreturn]] void unknown_code(const Spec& spec, const Value& value) {
  raise("Unknown format code '", std::string(1, spec.type), "' for object of type '", type_name(value), "'");
}

std::string lay_out(Runtime& runtime, const Spec& spec, std::string body, char default_align) {
  const std::size_t length = count_characters(body);
  if (spec.width > 0) {
    runtime.check_text(static_cast<std::size_t>(spec.width) * spec.fill.size());
  }
  return pad(std::move(body), length, spec.width, spec.align ? spec.align : default_align, spec.fill);
}

// A sign, a prefix and digits, with zeros or other fill between sign and digits when the alignment is '='.
std::string lay_out_number(Runtime& runtime, const Spec& spec, bool negative, std::string prefix, std::string digits,
                           const std::string& rest) {
  std::string sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  sign += prefix;
  if (spec.grouping) {
    const bool zeros = spec.align == '=' && spec.fill == "0";
    const int64_t room = spec.width - static_cast<int64_t>(sign.size() + rest.size());
    if (room > 1'000'000) raise("the field is too wide (a limit of this engine)");
    digits = group_digits(digits, spec.grouping, zeros ? static_cast<int>(std::max<int64_t>(room, 0)) : 0);
  }
  std::string body = digits + rest;
  if (spec.align != '=') return lay_out(runtime, spec, sign + body, '>');
  Spec inner = spec;
  inner.align = '>';
  inner.width = spec.width - static_cast<int64_t>(sign.size());
  return sign + lay_out(runtime, inner, std::move(body), '>');
}

std::string format_real(Runtime& runtime, const Spec& spec, double number, const Value& value) {
  char type = spec.type;
  if (type && std::string_view("eEfFgGn%").find(type) == std::string_view::npos) unknown_code(spec, value);
  if (spec.precision > 1000) raise("precision too big");
  runtime.spend(500);  // hundreds of digits take as long as that many steps
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  std::string text;
  if (!type) {
    if (spec.precision < 0) {
      text = print_float(number);
    } else {
      text = print_real(number, 'g', precision, spec.alternate);
      const std::size_t exponent = text.find('e');
      // One more digit would switch to an exponent, because ".0" is appended.
      const std::string fixed = text;
      if (exponent == std::string::npos && std::isfinite(number) && text.find('.') == std::string::npos) {
        const std::size_t digits = text.size() - (text[0] == '-');
        if (precision > 0 && digits >= static_cast<std::size_t>(precision) && std::abs(number) >= 1) {
          text = print_real(number, 'e', precision - 1, spec.alternate);
          const std::size_t e = text.find('e');
          std::string mantissa = text.substr(0, e);
          if (mantissa.find('.') != std::string::npos) {
            while (mantissa.back() == '0') mantissa.pop_back();
            if (mantissa.back() == '.') mantissa.pop_back();
          }
          text = mantissa + text.substr(e);
        } else {
          text = fixed + ".0";
        }
      }
    }
  } else if (type == '%') {
    text = print_real(number * 100, 'f', precision, spec.alternate) + "%";
  } else {
    text = print_real(number, type == 'n' ? 'g' : type, precision, spec.alternate);
  }
  const bool negative = text.starts_with('-');
  if (negative) text.erase(0, 1);
  std::size_t whole = 0;
  while (whole < text.size() && text[whole] >= '0' && text[whole] <= '9') ++whole;
  return lay_out_number(runtime, spec, negative, "", text.substr(0, whole), text.substr(whole));
}

std::string format_integer(Runtime& runtime, const Spec& spec, const Value& value) {
  const int64_t number = value.integer();
  int base = 10;
  std::string prefix;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n': break;
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'x':
      base = 16;
      prefix = "0x";
      break;
    case 'X':
      base = 16;
      prefix = "0X";
      break;
    case 'c': {
      if (number < 0 || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000))
        raise("%c arg not in range(0x110000)");
      std::string body;
      append_character(body, static_cast<char32_t>(number));
      return lay_out(runtime, spec, body, '<');
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case '%': return format_real(runtime, spec, static_cast<double>(number), value);
    default: unknown_code(spec, value);
  }
  if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
  return lay_out_number(runtime, spec, number < 0, spec.alternate ? prefix : "",
                        print_integer(number, base, spec.type == 'X'), "");
}

class FieldFormat {
 public:
  FieldFormat(Runtime& runtime, const FieldLookup& lookup) : runtime_(runtime), lookup_(lookup) {}

  std::string run(std::string_view text, int depth) {
    if (depth < 0) raise("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      const bool doubled = at < text.size() && text[at] == c;
      if ((c == '{' || c == '}') && doubled) {
        out += c;
        ++at;
      } else if (c == '}') {
        raise("Single '}' encountered in format string");
      } else if (c != '{') {
        out += c;
      } else {
        field(text, at, depth, out);
      }
      if (static_cast<int64_t>(out.size()) > runtime_.limits().output) raise("the formatted text is too long");
    }
    return out;
  }

 private:
  void field(std::string_view text, std::size_t& at, int depth, std::string& out) {
    runtime_.spend(1);
    if (at >= text.size()) raise("Single '{' encountered in format string");
    const std::size_t begin = at;
    int open = 1;
    bool bracket = false;
    std::size_t name_end = std::string_view::npos;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (name_end == std::string_view::npos) {
        if (c == '[') bracket = true;
        if (c == ']') bracket = false;
        if (!bracket && (c == ':' || c == '!')) name_end = at;
      }
      if (bracket) continue;
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (open != 0) raise("expected '}' before end of string");
    const std::size_t end = at++;
    name_end = std::min(name_end, end);
    const std::string_view name = text.substr(begin, name_end - begin);
    if (name.find('{') != std::string_view::npos) raise("unexpected '{' in field name");
    char conversion = '\0';
    std::string_view spec;
    if (name_end < end && text[name_end] == '!') {
      if (name_end + 1 >= end) raise("end of string while looking for conversion specifier");
      conversion = text[name_end + 1];
      if (name_end + 2 < end && text[name_end + 2] != ':') raise("expected ':' after conversion specifier");
      if (name_end + 2 < end) spec = text.substr(name_end + 3, end - name_end - 3);
    } else if (name_end < end) {
      spec = text.substr(name_end + 1, end - name_end - 1);
    }
    Value value = find(name);
    switch (conversion) {
      case '\0': break;
      case 's': value = runtime_.string(to_text(runtime_, value)); break;
      case 'r': value = runtime_.string(to_repr(runtime_, value)); break;
      case 'a': value = runtime_.string(ascii_repr(runtime_, value)); break;
      default: raise("Unknown conversion specifier ", std::string(1, conversion));
    }
    out += format_value(runtime_, value, run(spec, depth - 1));
  }

  static std::optional<int64_t> as_index(std::string_view text) {
    if (text.empty() || text.size() > 17) return std::nullopt;
    int64_t out = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      out = out * 10 + (c - '0');
    }
    return out;
  }

  Value find(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    Value value;
    if (first.empty()) {
      if (automatic_ < 0) raise("cannot switch from manual field specification to automatic field numbering");
      value = lookup_.position(automatic_++);
    } else if (const auto index = as_index(first)) {
      if (automatic_ > 0) raise("cannot switch from manual field specification to automatic field numbering");
      automatic_ = -1;
      value = lookup_.position(*index);
    } else {
      value = lookup_.name(std::string(first));
    }
    for (std::size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) raise("Empty attribute in format string");
        value = lookup_.attribute(value, std::string(name.substr(at + 1, end - at - 1)));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == std::string_view::npos) raise("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) raise("Empty attribute in format string");
        const auto index = as_index(key);
        value = lookup_.item(value, index ? Value(*index) : runtime_.string(std::string(key)));
        at = end + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Runtime& runtime_;
  const FieldLookup& lookup_;
  int64_t automatic_ = 0;  // -1: fields are numbered by hand
};

}  // namespace

std::string format_value(Runtime& runtime, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return to_text(runtime, value);
  if (value.is_string()) {
    const Spec spec = parse_spec(spec_text, value);
    if (spec.type && spec.type != 's') unknown_code(spec, value);
    if (spec.grouping) raise("Cannot specify '", std::string(1, spec.grouping), "' with 's'.");
    if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
    runtime.touch(value.text().size());
    std::string body = value.text();
    if (spec.precision >= 0) body = body.substr(0, byte_of_character(body, static_cast<std::size_t>(spec.precision)));
    return lay_out(runtime, spec, std::move(body), '<');
  }
  if (value.is_integral()) return format_integer(runtime, parse_spec(spec_text, value), value);
  if (value.is(Type::Float)) return format_real(runtime, parse_spec(spec_text, value), value.number(), value);
  raise("unsupported format string passed to ", type_name(value), ".__format__");
}

std::string format_fields(Runtime& runtime, std::string_view format, const FieldLookup& lookup) {
  runtime.walk(format.size());
  return FieldFormat(runtime, lookup).run(format, 2);
}

}  // namespace easydel::jinja
