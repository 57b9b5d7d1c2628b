#include "easydel/elarge/eval/python_literal.h"

#include <charconv>

#include "easydel/text/jinja/syntax/unescape.h"
#include "easydel/text/jinja/template_error.h"

namespace easydel {
namespace {

struct NoLiteral {};

class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  Json parse_all() {
    skip_space();
    Json value = parse_value(0);
    if (at_ != text_.size()) throw NoLiteral();
    return value;
  }

 private:
  static constexpr int kMaxDepth = 64;

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    skip_space();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw NoLiteral();
  }

  Json parse_value(int depth) {
    if (depth > kMaxDepth) throw NoLiteral();
    const char c = peek();
    if (c == '[') return parse_items('[', ']', depth);
    if (c == '(') return parse_items('(', ')', depth);
    if (c == '{') return parse_dict(depth);
    if (c == '\'' || c == '"') return parse_texts();
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    if (take_word("None")) return nullptr;
    return parse_number();
  }

  bool take_word(std::string_view word) {
    const std::size_t end = at_ + word.size();
    const auto is_name = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
    return (end >= text_.size() || !is_name(text_[end])) && take(word);
  }

  // One value in round brackets without a comma is itself.
  Json parse_items(char open, char close, int depth) {
    expect(std::string_view(&open, 1));
    Json items = Json::array();
    bool comma = false;
    while (peek() != close) {
      if (items.size() > 0 && !comma) throw NoLiteral();
      items.push_back(parse_value(depth + 1));
      comma = take(",");
    }
    expect(std::string_view(&close, 1));
    return open == '(' && items.size() == 1 && !comma ? items.at(0) : items;
  }

  Json parse_dict(int depth) {
    expect("{");
    Json object = Json::object();
    bool comma = true;
    while (peek() != '}') {
      if (!comma) throw NoLiteral();
      const Json key = parse_value(depth + 1);
      if (!key.is_string()) throw NoLiteral();
      expect(":");
      object[key.as_string()] = parse_value(depth + 1);
      comma = take(",");
    }
    expect("}");
    return object;
  }

  Json parse_texts() {
    std::string all;
    while (peek() == '\'' || peek() == '"') {
      const char quote = peek();
      if (text_.substr(at_).starts_with(std::string(3, quote))) throw NoLiteral();
      std::size_t end = at_ + 1;
      while (end < text_.size() && text_[end] != quote) {
        if (text_[end] == '\n') throw NoLiteral();
        end += text_[end] == '\\' ? 2 : 1;
      }
      if (end >= text_.size()) throw NoLiteral();
      all += jinja::unescape(text_.substr(at_ + 1, end - at_ - 1), 1);
      at_ = end + 1;
      skip_space();
    }
    return all;
  }

  Json parse_number() {
    std::size_t end = at_;
    const bool negative = peek() == '-';
    if (peek() == '-' || peek() == '+') ++end;
    const std::size_t begin = end;
    bool is_float = false;
    for (; end < text_.size(); ++end) {
      const char c = text_[end];
      const bool exponent_sign = (c == '-' || c == '+') && end > begin && (text_[end - 1] | 0x20) == 'e';
      if (c == '.' || (c | 0x20) == 'e' || exponent_sign) {
        is_float = true;
      } else if (c < '0' || c > '9') {
        break;
      }
    }
    const std::string_view digits = text_.substr(begin, end - begin);
    const auto check = [&](const std::from_chars_result& result) {
      if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size()) throw NoLiteral();
    };
    Json value;
    if (is_float) {
      double number = 0;
      check(std::from_chars(digits.data(), digits.data() + digits.size(), number));
      value = negative ? -number : number;
    } else {
      int64_t number = 0;
      check(std::from_chars(digits.data(), digits.data() + digits.size(), number));
      if (digits.size() > 1 && digits[0] == '0' && number != 0) throw NoLiteral();
      value = negative ? -number : number;
    }
    at_ = end;
    skip_space();
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<Json> parse_python_literal(std::string_view text) {
  try {
    return LiteralParser(text).parse_all();
  } catch (const NoLiteral&) {
    return std::nullopt;
  } catch (const jinja::TemplateError&) {  // an escape that means nothing
    return std::nullopt;
  }
}

}  // namespace easydel
