#include "easydel/text/jinja/syntax/lexer.h"

#include <array>

#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/syntax/unescape.h"
#include "easydel/text/jinja/template_error.h"

namespace easydel::jinja {
namespace {

int count_lines(std::string_view text) {
  int lines = 0;
  for (const char c : text) lines += c == '\n';
  return lines;
}

// Line ends become "\n", and a trailing one is removed unless kept.
std::string normalize(std::string_view source, bool keep_trailing_newline) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!keep_trailing_newline && !out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_character(char32_t c) { return c == '_' || is_alnum(c); }

class Lexer {
 public:
  Lexer(std::string_view source, const Settings& settings)
      : settings_(settings), source_(normalize(source, settings.keep_trailing_newline)) {}

  std::vector<Token> run() {
    try {
      while (at_ < source_.size()) text();
      tokens_.push_back({TokenType::End, tokens_.empty() ? 1 : tokens_.back().line, ""});
    } catch (const TemplateError& error) {
      tokens_.push_back({TokenType::Bad, error.line(), error.reason()});
    }
    return std::move(tokens_);
  }

 private:
  void add(TokenType type, std::string value) { tokens_.push_back({type, line_, std::move(value)}); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  std::size_t skip_space(std::size_t from) const {
    while (from < source_.size()) {
      std::size_t next = from;
      if (!is_space(next_character(source_, next))) break;
      from = next;
    }
    return from;
  }

  // Advances to `end`, counting lines.
  void advance(std::size_t end) {
    line_ += count_lines(std::string_view(source_).substr(at_, end - at_));
    line_starting_ = end > at_ && source_[end - 1] == '\n';
    at_ = end;
  }

  // The text before a tag, without the white space that the tag's sign or lstrip_blocks removes.
  void add_data(std::string_view text, char sign, bool strips_line) {
    std::string_view kept = text;
    if (sign == '-') {
      while (!kept.empty()) {
        std::size_t end = kept.size();
        if (!is_space(last_character(kept, end))) break;
        kept = kept.substr(0, end);
      }
    } else if (sign != '+' && strips_line && settings_.lstrip_blocks) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && start < text.size() && skip_space(at_ + start) >= at_ + text.size()) {
        kept = text.substr(0, start);
      }
    }
    if (!kept.empty()) add(TokenType::Data, std::string(kept));
  }

  // "%}" with its sign and the white space it removes: the end, or 0 when there is none at `at`.
  std::size_t block_end(std::size_t at) const {
    const std::string_view text = std::string_view(source_).substr(at);
    if (text.starts_with("+%}")) return at + 3;
    if (text.starts_with("-%}")) return skip_space(at + 3);
    if (text.starts_with("%}")) return at + (settings_.trim_blocks && text.size() > 2 && text[2] == '\n' ? 3 : 2);
    return 0;
  }

  // "{% word %}" at `at`, up to its closing "%}": where that begins, or 0.
  std::size_t keyword_tag(std::size_t at, std::string_view word) const {
    at += 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = skip_space(at);
    if (std::string_view(source_).substr(at, word.size()) != word) return 0;
    return skip_space(at + word.size());
  }

  void text() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        add(TokenType::Data, std::string(rest()));
        advance(source_.size());
        return;
      }
      const char kind = source_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    add_data(std::string_view(source_).substr(at_, tag - at_), has_sign ? sign : '\0', kind != '{');

    if (kind == '%') {
      if (const std::size_t end = keyword_tag(tag, "raw"); end != 0) {
        const std::string_view after = std::string_view(source_).substr(end);
        const bool strips = after.starts_with("-%}");
        if (strips || after.starts_with("%}")) {
          advance(strips ? skip_space(end + 3) : end + 2);
          raw();
          return;
        }
      }
    }
    advance(tag);
    if (kind == '#') {
      comment(tag + 2 + has_sign);
    } else {
      add(kind == '%' ? TokenType::BlockBegin : TokenType::VariableBegin, "");
      advance(tag + 2 + has_sign);
      code(kind == '%');
    }
  }

  void comment(std::size_t start) {
    const std::size_t close = source_.find("#}", start);
    if (close == std::string::npos) {
      if (start < source_.size()) raise_syntax(line_, "Missing end of comment tag");
      advance(source_.size());
      return;
    }
    const char sign = close > start ? source_[close - 1] : '\0';
    std::size_t end = close + 2;
    if (sign == '-') {
      end = skip_space(end);
    } else if (settings_.trim_blocks && sign != '+' && end < source_.size() && source_[end] == '\n') {
      ++end;
    }
    advance(end);
  }

  void raw() {
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const std::size_t closing = keyword_tag(tag, "endraw");
      const std::size_t end = closing == 0 ? 0 : block_end(closing);
      if (end == 0) continue;
      const char sign = source_[tag + 2];
      add_data(std::string_view(source_).substr(at_, tag - at_), sign == '-' || sign == '+' ? sign : '\0', true);
      advance(end);
      return;
    }
    if (at_ < source_.size()) raise_syntax(line_, "Missing end of raw directive");
  }

  // Up to the end of the tag, which is recognized only outside brackets.
  void code(bool block) {
    std::string open;
    while (true) {
      if (open.empty()) {
        if (block) {
          if (const std::size_t end = block_end(at_); end != 0) {
            add(TokenType::BlockEnd, "");
            advance(end);
            return;
          }
        } else if (rest().starts_with("-}}") || rest().starts_with("}}")) {
          add(TokenType::VariableEnd, "");
          advance(peek() == '-' ? skip_space(at_ + 3) : at_ + 2);
          return;
        }
      }
      if (at_ >= source_.size()) return;
      if (const std::size_t end = skip_space(at_); end != at_) {
        advance(end);
      } else if (!number() && !name() && !string()) {
        operation(open);
      }
    }
  }

  // Digits with single underscores between them: the end, or `at` when there are none.
  std::size_t digits(std::size_t at) const {
    const auto digit = [&](std::size_t i) { return i < source_.size() && source_[i] >= '0' && source_[i] <= '9'; };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && at > 0 && digit(at - 1) && digit(at + 1))) ++at;
    return at;
  }

  std::size_t float_end() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;
    const std::size_t whole = digits(at_);
    std::size_t end = whole;
    if (end < source_.size() && source_[end] == '.') {
      if (const std::size_t fraction = digits(end + 1); fraction > end + 1) end = fraction;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (const std::size_t last = digits(exponent); last > exponent) return last;
    }
    return end == whole ? 0 : end;
  }

  std::size_t integer_end() const {
    const auto scan = [&](std::size_t at, auto accepts) {
      while (at < source_.size()) {
        const bool underscore = source_[at] == '_' && at + 1 < source_.size() && accepts(source_[at + 1]);
        if (!underscore && !accepts(source_[at])) break;
        at += underscore ? 2 : 1;
      }
      return at;
    };
    const auto prefixed = [&](auto accepts) -> std::size_t {
      const std::size_t end = scan(at_ + 2, accepts);
      return end > at_ + 2 ? end : at_ + 1;
    };
    if (peek() != '0') return digits(at_);
    switch (peek(1) | 0x20) {
      case 'b': return prefixed([](char c) { return c == '0' || c == '1'; });
      case 'o': return prefixed([](char c) { return c >= '0' && c <= '7'; });
      case 'x': return prefixed([](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
      default: return scan(at_ + 1, [](char c) { return c == '0'; });
    }
  }

  bool number() {
    if (peek() < '0' || peek() > '9') return false;
    const std::size_t float_ends = float_end();
    const std::size_t end = float_ends != 0 ? float_ends : integer_end();
    std::string value;
    for (std::size_t i = at_; i < end; ++i) {
      if (source_[i] != '_') value += source_[i];
    }
    add(float_ends != 0 ? TokenType::Float : TokenType::Integer, std::move(value));
    advance(end);
    return true;
  }

  bool name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      std::size_t next = end;
      if (!is_name_character(next_character(source_, next))) break;
      end = next;
    }
    if (end == at_) return false;
    std::size_t first = at_;
    const char32_t c = next_character(source_, first);
    if (c != '_' && !is_alpha(c)) raise_syntax(line_, "Invalid character in identifier");
    add(TokenType::Name, source_.substr(at_, end - at_));
    advance(end);
    return true;
  }

  bool string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return false;
    add(TokenType::String, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
    return true;
  }

  void operation(std::string& open) {
    static constexpr std::array<std::string_view, 6> kDouble{"//", "**", "==", "!=", ">=", "<="};
    std::string found;
    for (const std::string_view candidate : kDouble) {
      if (rest().starts_with(candidate)) found = candidate;
    }
    if (found.empty() && std::string_view("+-/*%~[](){}><=.:|,;").find(peek()) != std::string_view::npos) {
      found = peek();
    }
    if (found.empty()) {
      std::size_t end = at_;
      next_character(source_, end);
      raise_syntax(line_, concat("unexpected char ", quoted(source_.substr(at_, end - at_)), " at ",
                                 count_characters(std::string_view(source_).substr(0, at_))));
    }
    const char c = found[0];
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) raise_syntax(line_, concat("unexpected '", c, "'"));
      if (open.back() != c) raise_syntax(line_, concat("unexpected '", c, "', expected '", open.back(), "'"));
      open.pop_back();
    }
    const std::size_t end = at_ + found.size();
    add(TokenType::Operator, std::move(found));
    advance(end);
  }

  Settings settings_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const Settings& settings) { return Lexer(source, settings).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::Data: return "template data / text";
    case TokenType::BlockBegin: return "begin of statement block";
    case TokenType::BlockEnd: return "end of statement block";
    case TokenType::VariableBegin: return "begin of print statement";
    case TokenType::VariableEnd: return "end of print statement";
    case TokenType::String: return "string";
    case TokenType::Integer: return "integer";
    case TokenType::Float: return "float";
    case TokenType::End: return "end of template";
    default: return token.text;
  }
}

void raise_syntax(int line, const std::string& message) { throw TemplateError(line, message); }

}  // namespace easydel::jinja
