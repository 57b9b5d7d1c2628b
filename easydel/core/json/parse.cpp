// A strict recursive-descent parser: RFC 8259 and Python's NaN and Infinity, UTF-8 checked, depth limited.
#include <algorithm>
#include <charconv>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const JsonParseOptions& options) : text_(text), options_(options) {}

  Json document() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
    Json value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail_here("expected the end of the text");
    return value;
  }

 private:
  [[noreturn]] void fail_here(std::string_view what) const { fail_at(at_, what); }

  [[noreturn]] void fail_at(std::size_t at, std::string_view what) const {
    const std::string_view before = text_.substr(0, at);
    const std::size_t line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    std::string got = "the end of the text";
    if (at < text_.size()) {
      const unsigned char c = text_[at];
      got = c >= 0x20 && c < 0x7f ? concat("'", text_[at], "'") : concat("the byte ", int{c});
    }
    fail<FormatError>("[", options_.where, "] line ", line, ", column ", at - line_start + 1, ": ", what, "; got ", got,
                      ".");
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Json parse_value(int depth) {
    if (depth > options_.max_depth) fail_here(concat("nested deeper than ", options_.max_depth, " levels"));
    skip_space();
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"': return parse_string();
      case 't':
        if (take("true")) return true;
        break;
      case 'f':
        if (take("false")) return false;
        break;
      case 'n':
        if (take("null")) return nullptr;
        break;
      case 'N':
        if (take("NaN")) return std::numeric_limits<double>::quiet_NaN();
        break;
      case 'I':
        if (take("Infinity")) return std::numeric_limits<double>::infinity();
        break;
      case '-':
        if (take("-Infinity")) return -std::numeric_limits<double>::infinity();
        return parse_number();
      default:
        if (peek() >= '0' && peek() <= '9') return parse_number();
    }
    fail_here("expected a value");
  }

  Json parse_object(int depth) {
    Json::Object object;
    ++at_;
    skip_space();
    if (take("}")) return object;
    while (true) {
      skip_space();
      if (peek() != '"') fail_here("expected a key in quotes");
      const std::size_t key_at = at_;
      const std::string key = parse_string();
      if (options_.reject_duplicate_keys && object.contains(key))
        fail_at(key_at, concat("the key \"", key, "\" appears twice"));
      skip_space();
      if (!take(":")) fail_here("expected ':' after a key");
      Json value = parse_value(depth + 1);
      object[key] = std::move(value);
      skip_space();
      if (take("}")) return object;
      if (!take(",")) fail_here("expected ',' or '}'");
    }
  }

  Json parse_array(int depth) {
    Json::Array array;
    ++at_;
    skip_space();
    if (take("]")) return array;
    while (true) {
      array.push_back(parse_value(depth + 1));
      skip_space();
      if (take("]")) return array;
      if (!take(",")) fail_here("expected ',' or ']'");
    }
  }

  Json parse_number() {
    const std::size_t start = at_;
    const auto digits = [&] {
      if (peek() < '0' || peek() > '9') fail_here("expected a digit");
      while (peek() >= '0' && peek() <= '9') ++at_;
    };
    bool integral = true;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    if (peek() == '.') {
      integral = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      integral = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const char* first = text_.data() + start;
    const char* last = text_.data() + at_;
    int64_t whole = 0;
    if (integral && std::from_chars(first, last, whole).ec == std::errc()) return whole;
    double number = 0;
    if (std::from_chars(first, last, number).ec != std::errc()) fail_at(start, "a number out of range for a double");
    return number;
  }

  unsigned parse_hex4() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail_here("expected four hexadecimal digits after \\u");
      code = code * 16 + digit;
    }
    return code;
  }

  void parse_escape(std::string& out) {
    const std::size_t start = at_++;
    const char c = peek();
    ++at_;
    switch (c) {
      case '"':
      case '\\':
      case '/': out += c; return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case 'n': out += '\n'; return;
      case 'r': out += '\r'; return;
      case 't': out += '\t'; return;
      case 'u': break;
      default: fail_at(start, "an unknown escape");
    }
    unsigned code = parse_hex4();
    if (code >= 0xDC00 && code < 0xE000) fail_at(start, "half of a surrogate pair");
    if (code >= 0xD800 && code < 0xDC00) {
      if (!take("\\u")) fail_at(start, "half of a surrogate pair");
      const unsigned low = parse_hex4();
      if (low < 0xDC00 || low >= 0xE000) fail_at(start, "half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    utf8::append(out, code);
  }

  std::string parse_string() {
    std::string out;
    const std::size_t start = at_++;
    while (true) {
      const std::size_t plain = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      check_utf8(plain, at_);
      out.append(text_.substr(plain, at_ - plain));
      if (at_ >= text_.size()) fail_at(start, "a string without its closing quote");
      if (text_[at_] == '"') {
        ++at_;
        return out;
      }
      if (text_[at_] != '\\') fail_here("a control character inside a string");
      parse_escape(out);
    }
  }

  void check_utf8(std::size_t from, std::size_t to) const {
    const std::size_t bad = invalid_utf8(text_.substr(from, to - from));
    if (bad != std::string_view::npos) fail_at(from + bad, "invalid UTF-8");
  }

  std::string_view text_;
  const JsonParseOptions& options_;
  std::size_t at_ = 0;
};

}  // namespace

Json Json::parse(std::string_view text, const JsonParseOptions& options) { return Parser(text, options).document(); }

}  // namespace easydel
