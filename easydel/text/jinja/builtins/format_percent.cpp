#include <cmath>

#include "easydel/text/jinja/builtins/format.h"
#include "easydel/text/jinja/builtins/number_format.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Value& format, const Value& arguments)
      : runtime_(runtime), text_(format.text()), safe_(format.safe()), arguments_(arguments) {
    mapping_ =
        !arguments.is(Type::Tuple) && !arguments.is_string() &&
        (arguments.is(Type::Dict) || arguments.is(Type::List) || arguments.is(Type::Range) || arguments.is_undefined());
  }

  std::string run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '%') {
        const std::size_t end = std::min(text_.find('%', at_), text_.size());
        out_.append(text_, at_, end - at_);
        at_ = end;
        continue;
      }
      ++at_;
      directive();
      runtime_.spend(1);
    }
    const bool rest = arguments_.is(Type::Tuple) ? used_ < arguments_.as<ListData>().items.size() : used_ == 0;
    if (rest && !mapping_) raise("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  Value next_argument() {
    if (has_key_) return keyed_;
    if (arguments_.is(Type::Tuple)) {
      const Values& items = arguments_.as<ListData>().items;
      if (used_ >= items.size()) raise("not enough arguments for format string");
      return items[used_++];
    }
    if (used_ > 0) raise("not enough arguments for format string");
    ++used_;
    return arguments_;
  }

  char take() {
    if (at_ >= text_.size()) raise("incomplete format");
    return text_[at_++];
  }

  void key() {
    if (!mapping_) raise("format requires a mapping");
    int open = 1;
    const std::size_t begin = at_;
    while (open > 0) {
      const char c = at_ < text_.size() ? text_[at_++] : '\0';
      if (c == '\0') raise("incomplete format key");
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    const Value name = runtime_.string(text_.substr(begin, at_ - begin - 1));
    refuse_undefined(arguments_);
    if (!arguments_.is(Type::Dict)) raise("list indices must be integers or slices, not str");
    keyed_ = dict_get(runtime_, arguments_.as<DictData>(), name);
    if (keyed_.is_missing()) raise("KeyError: ", quoted(name.text()));
    has_key_ = true;
  }

  int64_t number(const char* what) {
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      const Value value = next_argument();
      if (!value.is_integral()) raise("* wants int");
      return value.integer();
    }
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > INT32_MAX) raise(what, " too big");
    }
    return value;
  }

  void directive() {
    has_key_ = false;
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      key();
    }
    bool left = false, plus = false, space = false, alternate = false, zero = false;
    for (;; ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      if (c == '-')
        left = true;
      else if (c == '+')
        plus = true;
      else if (c == ' ')
        space = true;
      else if (c == '#')
        alternate = true;
      else if (c == '0')
        zero = true;
      else
        break;
    }
    int64_t width = number("width");
    if (width < 0) {
      left = true;
      width = -width;
    }
    int64_t precision = -1;
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      precision = std::max<int64_t>(number("precision"), 0);
    }
    if (at_ < text_.size() && (text_[at_] == 'h' || text_[at_] == 'l' || text_[at_] == 'L')) ++at_;
    const char type = take();
    if (type == '%') {
      out_ += '%';
      return;
    }
    const Value value = next_argument();
    std::string sign, body;
    bool numeric = true;
    switch (type) {
      case 's':
      case 'r':
      case 'a':
      case 'c':
        numeric = false;
        body = text_of(type, value, precision);
        break;
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': integer(type, value, alternate, precision, sign, body); break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': real(type, value, alternate, precision, sign, body); break;
      default: raise("unsupported format character '", std::string(1, type), "' at index ", at_ - 1);
    }
    if (numeric && sign.find('-') == std::string::npos && (plus || space)) sign = (plus ? "+" : " ") + sign;
    const std::size_t length = count_characters(body) + sign.size();
    runtime_.check_text(static_cast<std::size_t>(std::max<int64_t>(width, 0)));
    if (numeric && zero && !left && width > static_cast<int64_t>(length)) {
      out_ += sign + std::string(static_cast<std::size_t>(width) - length, '0') + body;
    } else {
      out_ += pad(sign + body, length, width, left ? '<' : '>', " ");
    }
    if (static_cast<int64_t>(out_.size()) > runtime_.limits().output) raise("the formatted text is too long");
  }

  std::string text_of(char type, const Value& value, int64_t precision) {
    std::string body;
    if (type == 'c') {
      if (value.is_string() && value.string().length == 1) {
        body = value.text();
      } else if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000 &&
                 (value.integer() < 0xD800 || value.integer() > 0xDFFF)) {
        append_character(body, static_cast<char32_t>(value.integer()));
      } else {
        raise("%c requires int or char");
      }
      return body;
    }
    body = type == 's'   ? to_text(runtime_, value)
           : type == 'r' ? to_repr(runtime_, value)
                         : ascii_repr(runtime_, value);
    if (safe_ && !value.safe()) body = escape_html(body);
    if (precision >= 0) body = body.substr(0, byte_of_character(body, static_cast<std::size_t>(precision)));
    return body;
  }

  void integer(char type, const Value& value, bool alternate, int64_t precision, std::string& sign, std::string& body) {
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (!value.is_number() || (!decimal && !value.is_integral())) {
      refuse_undefined(value);
      raise("%", std::string(1, type), " format: a", decimal ? " real number" : "n integer", " is required, not ",
            type_name(value));
    }
    int64_t whole = 0;
    if (value.is_integral()) {
      whole = value.integer();
    } else {
      if (!(std::abs(value.number()) < 9.2e18)) raise("cannot convert float to integer");
      whole = static_cast<int64_t>(value.number());
    }
    if (precision > kMaxPrecision) raise("precision too big");
    body = print_integer(whole, type == 'o' ? 8 : decimal ? 10 : 16, type == 'X');
    while (static_cast<int64_t>(body.size()) < precision) body.insert(body.begin(), '0');
    if (whole < 0) sign = "-";
    if (alternate && !decimal) sign += type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
  }

  void real(char type, const Value& value, bool alternate, int64_t precision, std::string& sign, std::string& body) {
    if (!value.is_number()) {
      refuse_undefined(value);
      raise("must be real number, not ", type_name(value));
    }
    if (precision > kMaxPrecision) raise("precision too big");
    runtime_.spend(500);  // hundreds of digits take as long as that many steps
    body = print_real(value.number(), type, precision < 0 ? 6 : static_cast<int>(precision), alternate);
    if (body.starts_with('-')) {
      sign = "-";
      body.erase(0, 1);
    }
  }

  Runtime& runtime_;
  const std::string& text_;
  bool safe_;
  const Value& arguments_;
  bool mapping_ = false;
  bool has_key_ = false;
  Value keyed_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
  std::string out_;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& arguments) {
  runtime.walk(format.text().size());
  return runtime.string(PercentFormat(runtime, format, arguments).run(), format.safe());
}

std::string ascii_repr(Runtime& runtime, const Value& value) {
  const std::string text = to_repr(runtime, value);
  std::string out;
  for (std::size_t byte = 0; byte < text.size();) {
    const char32_t c = next_character(text, byte);
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    char escape[16];
    std::snprintf(escape, sizeof escape,
                  c < 0x100     ? "\\x%02x"
                  : c < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                  static_cast<unsigned>(c));
    out += escape;
  }
  return out;
}

}  // namespace easydel::jinja
