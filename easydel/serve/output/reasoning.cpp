#include <array>
#include <utility>

#include "easydel/serve/output/parsers.h"
#include "easydel/serve/output/text_parser.h"

namespace easydel::serve {

namespace {

// Only at the start of an answer: a tag that is mentioned later is text. Line breaks next to the tags are left out.
class ReasoningSplitter final : public TextParser {
 public:
  explicit ReasoningSplitter(ReasoningTags tags) : tags_(std::move(tags)) {}

 private:
  ParseTask<Unit> read() override {
    co_await spaces();
    const int opened = co_await any_of(tags_.open);
    const bool is_open = opened >= 0 || tags_.starts_inside;
    if (opened < 0) input_.at = 0;
    if (is_open) {
      co_await line_breaks();
      co_await reasoning();
    }
    co_await TextParser::read();
    co_return Unit{};
  }

  ParseTask<Unit> line_breaks() {
    while (true) {
      const int c = co_await peek();
      if (c != '\n' && c != '\r') co_return Unit{};
      ++input_.at;
    }
  }

  ParseTask<Unit> reasoning() {
    while (true) {
      input_.forget();
      const std::size_t mark = input_.at;
      co_await line_breaks();
      const int closed = co_await any_of(tags_.close);
      if (closed >= 0) {
        co_await line_breaks();
        co_return Unit{};
      }
      const int c = co_await peek();
      if (c >= 0) ++input_.at;
      add_reasoning(input_.since(mark));
      if (c < 0) co_return Unit{};
    }
  }

  ReasoningTags tags_;
};

void append_delta(MessageDelta& delta, MessageDelta more) {
  delta.content += more.content;
  for (ToolCallDelta& call : more.tool_calls) {
    const bool continues = !delta.tool_calls.empty() && delta.tool_calls.back().index == call.index;
    if (continues) {
      delta.tool_calls.back().arguments += call.arguments;
    } else {
      delta.tool_calls.push_back(std::move(call));
    }
  }
}

class ReasoningThenRest final : public MessageParser {
 public:
  ReasoningThenRest(ReasoningTags tags, std::unique_ptr<MessageParser> next)
      : splitter_(std::move(tags)), next_(std::move(next)) {}

 private:
  MessageDelta feed(std::string_view text) override { return pass_on(splitter_.feed(text)); }

  MessageDelta finish() override {
    MessageDelta delta = pass_on(splitter_.finish());
    append_delta(delta, next_->finish());
    return delta;
  }

  MessageDelta pass_on(MessageDelta split) {
    MessageDelta delta{.content = {}, .reasoning = std::move(split.reasoning), .tool_calls = {}};
    if (!split.content.empty()) append_delta(delta, next_->feed(split.content));
    return delta;
  }

  ReasoningSplitter splitter_;
  std::unique_ptr<MessageParser> next_;
};

const std::array<std::pair<std::string_view, ReasoningTags>, 4>& all_reasoning_tags() {
  static const std::array<std::pair<std::string_view, ReasoningTags>, 4> all = {{
      {"think", {{"<think>"}, {"</think>"}, false}},
      {"deepseek_r1", {{"<think>"}, {"</think>"}, true}},
      {"mistral", {{"[THINK]"}, {"[/THINK]"}, false}},
      {"granite",
       {{"Here is my thought process:", "Here's my thought process:"},
        {"Here is my response:", "Here's my response:"},
        false}},
  }};
  return all;
}

}  // namespace

std::unique_ptr<MessageParser> make_reasoning_parser(ReasoningTags tags, std::unique_ptr<MessageParser> next) {
  return std::make_unique<ReasoningThenRest>(std::move(tags), std::move(next));
}

const ReasoningTags* find_reasoning_tags(std::string_view reasoning) {
  for (const auto& [name, tags] : all_reasoning_tags()) {
    if (name == reasoning) return &tags;
  }
  return nullptr;
}

}  // namespace easydel::serve
