// Calls written as Python: [get_weather(city="Paris", days=3), get_time()].
#include <array>

#include "easydel/serve/output/json_call.h"
#include "easydel/serve/output/json_scanner.h"
#include "easydel/serve/output/parsers.h"

namespace easydel::serve {

namespace {

constexpr int kPythonicMaxDepth = 64;

// A number as Python writes it, as JSON; empty where it is none.
std::string json_of_python_number(std::string_view text) {
  std::string number;
  for (const char c : text) {
    if (c != '_') number += c;
  }
  if (number.starts_with('+')) number.erase(0, 1);
  const std::size_t sign = number.starts_with('-') ? 1 : 0;
  if (number.substr(sign).starts_with('.')) number.insert(sign, "0");
  const std::size_t point = number.find('.');
  if (point != std::string::npos && !is_parser_digit(point + 1 < number.size() ? number[point + 1] : -1)) {
    number.insert(point + 1, "0");
  }
  return is_json_object("{\"number\":" + number + "}") ? number : std::string();
}

// The list begins the answer or follows <|python_start|>. A list of JSON calls is read as well: it is what a grammar
// for this format makes.
class PythonicParser final : public JsonCallParser {
  ParseTask<Unit> read() override {
    bool bare = true;
    while (true) {
      input_.forget();
      const int c = co_await peek();
      if (c < 0) break;
      const std::size_t mark = input_.at;
      bool tagged = false;
      if (c == '<') tagged = co_await start_tag();
      if (tagged) co_await spaces();
      const int first = co_await peek();
      if (first == '[' && (bare || tagged)) {
        co_await list(mark);
        bare = false;
        continue;
      }
      if (!tagged) {
        const bool ended = co_await at_end();
        if (ended) break;
        ++input_.at;
      }
      reject(mark);
      if (!is_parser_space(c)) bare = false;
    }
    end_content();
    co_return Unit{};
  }

  ParseTask<bool> start_tag() {
    static constexpr std::array<std::string_view, 2> kTags = {"<|python_start|>", "<|python_tag|>"};
    const int tag = co_await any_of(kTags);
    co_return tag >= 0;
  }

  ParseTask<bool> at_end() override {
    static constexpr std::array<std::string_view, 5> kEnds = {"<|python_end|>", "<|eom|>", "<|eot|>", "<|eom_id|>",
                                                              "<|eot_id|>"};
    const std::size_t mark = input_.at;
    const int c = co_await peek();
    if (c != '<') co_return false;
    const int end = co_await any_of(kEnds);
    const int next = co_await peek();
    if (end >= 0 && next < 0) co_return true;
    input_.at = mark;
    co_return false;
  }

  ParseTask<Unit> list(std::size_t mark) {
    const std::size_t bracket = input_.at;
    ++input_.at;
    co_await spaces();
    const int first = co_await peek();
    if (first == '{') {
      input_.at = bracket;
      co_await call_list(mark, true);
    } else {
      co_await python_list(mark);
    }
    const std::size_t behind = input_.at;
    co_await spaces();
    const bool closed = co_await literal("<|python_end|>");
    if (!closed) input_.at = behind;
    co_return Unit{};
  }

  ParseTask<Unit> python_list(std::size_t mark) {
    while (true) {
      co_await spaces();
      const CallEnd end = co_await python_call();
      if (end == CallEnd::Rejected) reject(mark);
      if (end != CallEnd::Complete) co_return Unit{};
      input_.forget();
      mark = input_.at;
      co_await spaces();
      const int c = co_await peek();
      if (c != ',' && c != ']') {
        reject(mark);
        co_return Unit{};
      }
      ++input_.at;
      if (c == ']') co_return Unit{};
    }
  }

  static bool is_word(char c) { return is_parser_letter(c) || is_parser_digit(c); }
  static bool is_function(char c) { return is_word(c) || c == '.' || c == '-'; }

  // name= of an argument; empty where that is not what follows.
  ParseTask<std::string> keyword() {
    std::string key = co_await take_while(is_word);
    co_await spaces();
    const bool equals = co_await literal("=");
    if (!equals || is_parser_digit(key.empty() ? '0' : key[0])) co_return std::string();
    co_await spaces();
    co_return key;
  }

  // The name is told once an argument with its name or the closing bracket follows: [text](link) is no call.
  ParseTask<CallEnd> python_call() {
    std::string name = co_await take_while(is_function);
    const bool opened = co_await literal("(");
    if (!opened || name.empty() || is_parser_digit(name[0])) co_return CallEnd::Rejected;
    co_await spaces();
    const bool closed = co_await literal(")");
    if (closed) {
      begin_call(std::move(name));
      add_arguments("{}");
      co_return CallEnd::Complete;
    }
    std::string key = co_await keyword();
    if (key.empty()) co_return CallEnd::Rejected;
    begin_call(std::move(name));
    std::string separator = "{";
    while (true) {
      add_arguments(separator + quoted_json(key) + ": ");
      separator = ", ";
      const bool good = co_await value(0);
      if (!good) co_return CallEnd::Broken;
      input_.forget();
      const std::size_t mark = input_.at;
      const int next = co_await next_item(')');
      if (next == ')') {
        add_arguments("}");
        co_return CallEnd::Complete;
      }
      if (next == ',') key = co_await keyword();
      if (next < 0 || key.empty()) {
        input_.at = mark;
        co_return CallEnd::Broken;
      }
    }
  }

  // A comma before another item, or the bracket, perhaps after a comma; -1 for anything else.
  ParseTask<int> next_item(char bracket) {
    co_await spaces();
    const bool comma = co_await literal(",");
    if (comma) co_await spaces();
    const bool closed = co_await literal({&bracket, 1});
    co_return closed ? bracket : comma ? ',' : -1;
  }

  // A literal, handed on as JSON. Where it breaks, the bytes that break it are not read.
  ParseTask<bool> value(int depth) {
    const int c = co_await peek();
    if (c == '"' || c == '\'') co_return co_await string(static_cast<char>(c));
    if (depth >= kPythonicMaxDepth) co_return false;
    if (c == '[') co_return co_await items(']', depth);
    if (c == '(') co_return co_await items(')', depth);
    if (c == '{') co_return co_await items('}', depth);
    const std::size_t mark = input_.at;
    const std::string word = co_await take_while([](char d) { return is_function(d) || d == '+'; });
    std::string json = word == "True" || word == "true"     ? "true"
                       : word == "False" || word == "false" ? "false"
                       : word == "None" || word == "null"   ? "null"
                                                            : json_of_python_number(word);
    if (json.empty()) {
      input_.at = mark;
      co_return false;
    }
    add_arguments(json);
    co_return true;
  }

  // A list, a tuple or a dictionary.
  ParseTask<bool> items(char bracket, int depth) {
    const bool is_dictionary = bracket == '}';
    add_arguments(is_dictionary ? "{" : "[");
    ++input_.at;
    co_await spaces();
    bool closed = co_await literal({&bracket, 1});
    while (!closed) {
      if (is_dictionary) {
        const bool keyed = co_await dictionary_key();
        if (!keyed) co_return false;
      }
      const bool good = co_await value(depth + 1);
      if (!good) co_return false;
      const std::size_t mark = input_.at;
      const int next = co_await next_item(bracket);
      if (next < 0) {
        input_.at = mark;
        co_return false;
      }
      closed = next == bracket;
      if (!closed) add_arguments(", ");
    }
    add_arguments(is_dictionary ? "}" : "]");
    co_return true;
  }

  ParseTask<bool> dictionary_key() {
    const int quote = co_await peek();
    if (quote != '"' && quote != '\'') co_return false;
    const bool good = co_await string(static_cast<char>(quote));
    if (!good) co_return false;
    const std::size_t mark = input_.at;
    co_await spaces();
    const bool colon = co_await literal(":");
    if (!colon) {
      input_.at = mark;
      co_return false;
    }
    add_arguments(": ");
    co_await spaces();
    co_return true;
  }

  ParseTask<bool> string(char quote) {
    const std::string three(3, quote);
    const bool is_long = co_await literal(three);
    if (!is_long) ++input_.at;
    const std::string_view end = is_long ? std::string_view(three) : std::string_view(three).substr(2);
    add_arguments("\"");
    while (true) {
      const bool closed = co_await literal(end);
      if (closed) break;
      const int c = co_await peek();
      if (c < 0) co_return false;
      if (c == '\\') {
        const bool good = co_await escape();
        if (!good) co_return false;
        continue;
      }
      ++input_.at;
      add_arguments(escaped_json(static_cast<char>(c)));
    }
    add_arguments("\"");
    co_return true;
  }

  ParseTask<bool> escape() {
    static constexpr std::string_view kLetters = "abfnrtv0", kBytes = "\a\b\f\n\r\t\v";
    const std::size_t mark = input_.at;
    ++input_.at;
    const int c = co_await peek();
    if (c < 0) co_return false;
    ++input_.at;
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      const bool good = co_await code_point(digits);
      if (!good) input_.at = mark;
      co_return good;
    }
    const std::size_t letter = kLetters.find(static_cast<char>(c));
    if (letter < kBytes.size()) {
      add_arguments(escaped_json(kBytes[letter]));
    } else if (c == '0') {
      add_arguments(escaped_json('\0'));
    } else if (c != '\n') {  // an escaped line break is nothing; what Python does not know stays as it is
      if (c != '\\' && c != '\'' && c != '"') add_arguments("\\\\");
      add_arguments(escaped_json(static_cast<char>(c)));
    }
    co_return true;
  }

  ParseTask<bool> code_point(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const int c = co_await peek();
      const int lower = c | 0x20;
      const bool is_letter = lower >= 'a' && lower <= 'f';
      if (c < 0 || (!is_parser_digit(c) && !is_letter)) co_return false;
      code = code * 16 + static_cast<uint32_t>(is_letter ? lower - 'a' + 10 : c - '0');
      ++input_.at;
    }
    if (code > 0x10FFFF) co_return false;
    std::string text;
    if (digits == 8 && (code < 0xD800 || code > 0xDFFF) && code >= 0x80) {
      append_utf8(text, code);
    } else if (digits == 8 && code >= 0x80) {
      co_return false;
    } else {  // JSON has the same escape, and halves of pairs stay together
      static constexpr std::string_view kHex = "0123456789abcdef";
      text = "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) text += kHex[code >> shift & 15];
    }
    add_arguments(text);
    co_return true;
  }
};

}  // namespace

std::unique_ptr<MessageParser> make_pythonic_parser() { return std::make_unique<PythonicParser>(); }

}  // namespace easydel::serve
