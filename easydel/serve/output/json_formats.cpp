// Formats whose calls are JSON: hermes and qwen, llama 3, mistral, and JSON alone.
#include <array>

#include "easydel/serve/output/json_call.h"
#include "easydel/serve/output/parsers.h"

namespace easydel::serve {

namespace {

class HermesParser final : public JsonCallParser {
  ParseTask<bool> call() override {
    const std::size_t mark = input_.at;
    const bool opened = co_await literal("<tool_call>");
    if (!opened) co_return false;
    co_await spaces();
    const int c = co_await peek();
    CallEnd end = CallEnd::Rejected;
    if (c == '{') end = co_await call_object(false);
    if (end == CallEnd::Rejected) reject(mark);
    if (end == CallEnd::Complete) {
      const std::size_t behind = input_.at;
      co_await spaces();
      const bool closed = co_await literal("</tool_call>");
      if (!closed) input_.at = behind;
    }
    co_return true;
  }
};

// <|python_tag|> anywhere, or an object with which the answer begins.
class Llama3JsonParser final : public JsonCallParser {
  ParseTask<Unit> read() override {
    static constexpr std::array<std::string_view, 2> kEnds = {"<|eom_id|>", "<|eot_id|>"};
    bool bare = true;  // there was nothing but white space and calls
    while (true) {
      input_.forget();
      const int c = co_await peek();
      if (c < 0) break;
      const std::size_t mark = input_.at;
      if (c == '{' && bare) {
        const CallEnd end = co_await call_sequence(mark);
        bare = end == CallEnd::Complete;
        continue;
      }
      bool tagged = false;
      if (c == '<') tagged = co_await literal("<|python_tag|>");
      if (tagged) {
        co_await spaces();
        const int first = co_await peek();
        CallEnd end = CallEnd::Rejected;
        if (first == '{') {
          end = co_await call_sequence(mark);
        } else {
          reject(mark);
        }
        bare = end == CallEnd::Complete;
        continue;
      }
      int ended = -1;
      if (c == '<') ended = co_await any_of(kEnds);
      if (ended >= 0) {
        const int next = co_await peek();
        if (next < 0) break;
        reject(mark);
        bare = false;
        continue;
      }
      ++input_.at;
      reject(mark);
      if (!is_parser_space(c)) bare = false;
    }
    end_content();
    co_return Unit{};
  }
};

// [TOOL_CALLS] before a list of objects, or before name[ARGS]{…}, as newer models write.
class MistralParser final : public JsonCallParser {
 public:
  MistralParser() { id_length_ = 9; }

 private:
  ParseTask<Unit> read() override {
    while (true) {
      input_.forget();
      const int c = co_await peek();
      if (c < 0) break;
      const std::size_t mark = input_.at;
      bool opened = false;
      if (c == '[') opened = co_await literal("[TOOL_CALLS]");
      if (opened) {
        co_await calls(mark);
        continue;
      }
      bool ended = false;
      if (c == '<') ended = co_await literal("</s>");
      if (ended) {
        const int next = co_await peek();
        if (next < 0) break;
      } else {
        ++input_.at;
      }
      reject(mark);
    }
    end_content();
    co_return Unit{};
  }

  ParseTask<Unit> calls(std::size_t mark) {
    co_await spaces();
    const int c = co_await peek();
    if (c == '[') {
      co_await call_list(mark, false);
      co_return Unit{};
    }
    CallEnd end = CallEnd::Rejected;
    if (c == '{') {
      end = co_await call_object(false);
    } else {
      end = co_await named_call();
    }
    if (end == CallEnd::Rejected) reject(mark);
    co_return Unit{};
  }

  ParseTask<CallEnd> named_call() {
    const auto is_name = [](char c) { return is_parser_letter(c) || is_parser_digit(c) || c == '-' || c == '.'; };
    const auto is_id = [](char c) { return is_parser_letter(c) || is_parser_digit(c) || c == '-'; };
    std::string name = co_await take_while(is_name);
    if (name.empty()) co_return CallEnd::Rejected;
    std::string id;
    const bool has_id = co_await literal("[CALL_ID]");
    if (has_id) id = co_await take_while(is_id);
    co_await literal("[ARGS]");
    co_await spaces();
    const int c = co_await peek();
    if (c != '{') co_return CallEnd::Rejected;
    begin_call(std::move(name), std::move(id));
    const bool complete = co_await json_object(nullptr);
    co_return complete ? CallEnd::Complete : CallEnd::Broken;
  }
};

// The answer is a call, several, or a list of calls; or it is text.
class JsonAnswerParser final : public JsonCallParser {
  ParseTask<Unit> read() override {
    co_await spaces();
    const int c = co_await peek();
    if (c == '[') {
      co_await call_list(0, true);
    } else if (c == '{') {
      co_await call_sequence(0);
    } else {
      reject(0);
    }
    co_await TextParser::read();
    co_return Unit{};
  }
};

class PlainParser final : public MessageParser {
  MessageDelta feed(std::string_view text) override {
    return {.content = std::string(text), .reasoning = {}, .tool_calls = {}};
  }
  MessageDelta finish() override { return {}; }
};

}  // namespace

std::unique_ptr<MessageParser> make_plain_parser() { return std::make_unique<PlainParser>(); }
std::unique_ptr<MessageParser> make_hermes_parser() { return std::make_unique<HermesParser>(); }
std::unique_ptr<MessageParser> make_llama3_json_parser() { return std::make_unique<Llama3JsonParser>(); }
std::unique_ptr<MessageParser> make_mistral_parser() { return std::make_unique<MistralParser>(); }
std::unique_ptr<MessageParser> make_json_parser() { return std::make_unique<JsonAnswerParser>(); }

}  // namespace easydel::serve
