#include "easydel/serve/output/text_parser.h"

#include <random>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/serve/output/json_scanner.h"

namespace easydel::serve {

namespace {

constexpr std::string_view kParserSpaces = " \n\t\r";

std::string random_call_id(std::size_t length) {
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> pick(0, kLetters.size() - 1);
  std::string id;
  for (std::size_t i = 0; i < length; ++i) id += kLetters[pick(device)];
  return id;
}

}  // namespace

std::string escaped_json(char byte) {
  switch (byte) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  if (static_cast<unsigned char>(byte) >= 0x20) return {byte};
  static constexpr std::string_view kHex = "0123456789abcdef";
  return std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
}

std::string quoted_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char byte : text) quoted += escaped_json(byte);
  return quoted + '"';
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto byte = [&](uint32_t bits) { out += static_cast<char>(bits); };
  if (code_point < 0x80) return byte(code_point);
  if (code_point < 0x800) {
    byte(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      byte(0xE0 | code_point >> 12);
    } else {
      byte(0xF0 | code_point >> 18);
      byte(0x80 | (code_point >> 12 & 0x3F));
    }
    byte(0x80 | (code_point >> 6 & 0x3F));
  }
  byte(0x80 | (code_point & 0x3F));
}

MessageDelta TextParser::feed(std::string_view text) {
  input_.text += text;
  return step();
}

MessageDelta TextParser::finish() {
  input_.ended = true;
  return step();
}

MessageDelta TextParser::step() {
  if (!task_) {
    task_.emplace(read());
    task_->start(input_);
  }
  input_.run();
  task_->rethrow();
  return std::exchange(out_, {});
}

ParseTask<Unit> TextParser::read() {
  while (true) {
    input_.forget();
    const int c = co_await peek();
    if (c < 0) break;
    if (c == '<') {
      const bool is_call = co_await call();
      if (is_call) continue;
      const bool ended = co_await at_end();
      if (ended) break;
    }
    ++input_.at;
    reject(input_.at - 1);
  }
  end_content();
  co_return Unit{};
}

ParseTask<bool> TextParser::call() { co_return false; }
ParseTask<bool> TextParser::at_end() { co_return false; }

ParseTask<bool> TextParser::literal(std::string_view text) {
  const std::size_t mark = input_.at;
  for (const char expected : text) {
    const int c = co_await peek();
    if (c != static_cast<unsigned char>(expected)) {
      input_.at = mark;
      co_return false;
    }
    ++input_.at;
  }
  co_return true;
}

ParseTask<int> TextParser::any_of(std::span<const std::string_view> texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool found = co_await literal(texts[i]);
    if (found) co_return static_cast<int>(i);
  }
  co_return -1;
}

ParseTask<Unit> TextParser::spaces() {
  while (true) {
    const int c = co_await peek();
    if (!is_parser_space(c)) co_return Unit{};
    ++input_.at;
  }
}

ParseTask<std::optional<std::string>> TextParser::json_string() {
  const std::size_t mark = input_.at;
  const int first = co_await peek();
  if (first != '"') co_return std::nullopt;
  JsonScanner scanner;
  while (true) {
    const int c = co_await peek();
    if (c < 0) co_return std::nullopt;
    const auto result = scanner.accept(static_cast<char>(c));
    if (result == JsonScanner::Result::Error) co_return std::nullopt;
    ++input_.at;
    if (result == JsonScanner::Result::Done) break;
  }
  std::optional<std::string> text;
  try {
    text = Json::parse(input_.since(mark)).as_string();
  } catch (const Error&) {  // half of a surrogate pair
  }
  co_return text;
}

ParseTask<bool> TextParser::json_object(std::string* held) {
  JsonScanner scanner;
  while (true) {
    const int c = co_await peek();
    if (c < 0) co_return false;
    const char byte = static_cast<char>(c);
    const auto result = scanner.accept(byte);
    if (result == JsonScanner::Result::Error) co_return false;
    ++input_.at;
    if (held != nullptr) {
      held->push_back(byte);
    } else {
      add_arguments({&byte, 1});
      input_.forget();
    }
    if (result == JsonScanner::Result::Done) co_return true;
  }
}

ParseTask<std::string> TextParser::take_while(bool (*is_part)(char)) {
  const std::size_t mark = input_.at;
  while (true) {
    const int c = co_await peek();
    if (c < 0 || !is_part(static_cast<char>(c))) co_return std::string(input_.since(mark));
    ++input_.at;
  }
}

void TextParser::add_content(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kParserSpaces);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  out_.content += space_;
  out_.content += text.substr(0, last + 1);
  space_ = text.substr(last + 1);
  after_call_ = false;
}

void TextParser::end_content() {
  if (!after_call_) out_.content += space_;
  space_.clear();
}

void TextParser::begin_call(std::string name, std::string id) {
  if (id.empty()) id = id_length_ == 0 ? "call_" + random_call_id(24) : random_call_id(id_length_);
  space_.clear();
  after_call_ = true;
  out_.tool_calls.push_back({.index = calls_++, .id = std::move(id), .name = std::move(name), .arguments = {}});
}

void TextParser::add_arguments(std::string_view text) {
  if (out_.tool_calls.empty()) out_.tool_calls.push_back({.index = calls_ - 1, .id = {}, .name = {}, .arguments = {}});
  out_.tool_calls.back().arguments += text;
}

}  // namespace easydel::serve
