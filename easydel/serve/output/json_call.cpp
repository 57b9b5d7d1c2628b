#include "easydel/serve/output/json_call.h"

#include "easydel/serve/output/json_scanner.h"

namespace easydel::serve {

void JsonCallParser::begin(Draft& draft) {
  draft.begun = true;
  begin_call(*draft.name);
}

ParseTask<bool> JsonCallParser::arguments(Draft& draft) {
  draft.has_arguments = true;
  const int c = co_await peek();
  if (c == '{' && draft.name) {
    begin(draft);
    co_return co_await json_object(nullptr);
  }
  draft.arguments.emplace();
  if (c == '{') {
    const bool is_object = co_await json_object(&*draft.arguments);
    co_return is_object;
  }
  if (c == '"') {
    const std::optional<std::string> text = co_await json_string();
    draft.arguments = text.value_or("");
    co_return is_json_object(*draft.arguments);
  }
  draft.arguments = "{}";
  co_return co_await literal("null");
}

ParseTask<bool> JsonCallParser::entry(Draft& draft) {
  const std::optional<std::string> key = co_await json_string();
  if (!key) co_return false;
  co_await spaces();
  const bool colon = co_await literal(":");
  if (!colon) co_return false;
  co_await spaces();
  if (*key == "name" && !draft.name) {
    draft.name = co_await json_string();
    co_return draft.name && !draft.name->empty();
  }
  if ((*key == "arguments" || *key == "parameters") && !draft.has_arguments) co_return co_await arguments(draft);
  if (*key != "id" && *key != "type") co_return false;
  const bool null = co_await literal("null");
  if (null) co_return true;
  const std::optional<std::string> text = co_await json_string();
  co_return text.has_value();
}

ParseTask<TextParser::CallEnd> JsonCallParser::call_object(bool needs_arguments) {
  Draft draft;
  ++input_.at;
  while (true) {
    co_await spaces();
    const bool good = co_await entry(draft);
    if (!good) co_return draft.failed();
    if (draft.name && draft.arguments) {
      begin(draft);
      add_arguments(*draft.arguments);
      draft.arguments.reset();
    }
    co_await spaces();
    const int c = co_await peek();
    if (c == '}') break;
    if (c != ',') co_return draft.failed();
    ++input_.at;
  }
  if (!draft.begun && (!draft.name || needs_arguments)) co_return CallEnd::Rejected;
  ++input_.at;
  if (!draft.begun) {
    begin(draft);
    add_arguments("{}");
  }
  co_return CallEnd::Complete;
}

ParseTask<TextParser::CallEnd> JsonCallParser::call_list(std::size_t mark, bool needs_arguments) {
  ++input_.at;
  while (true) {
    co_await spaces();
    const int first = co_await peek();
    CallEnd end = CallEnd::Rejected;
    if (first == '{') end = co_await call_object(needs_arguments);
    if (end == CallEnd::Rejected) reject(mark);
    if (end != CallEnd::Complete) co_return end;
    mark = input_.at;  // from here on the text belongs to the next one
    co_await spaces();
    const int c = co_await peek();
    if (c != ',' && c != ']') {
      reject(mark);
      co_return CallEnd::Broken;
    }
    ++input_.at;
    if (c == ']') co_return CallEnd::Complete;
  }
}

ParseTask<TextParser::CallEnd> JsonCallParser::call_sequence(std::size_t mark) {
  while (true) {
    const CallEnd end = co_await call_object(true);
    if (end == CallEnd::Rejected) reject(mark);
    if (end != CallEnd::Complete) co_return end;
    mark = input_.at;
    co_await spaces();
    const int separator = co_await peek();
    if (separator == ';' || separator == ',') {
      ++input_.at;
      co_await spaces();
    }
    const int c = co_await peek();
    if (c != '{') {
      input_.at = mark;
      co_return CallEnd::Complete;
    }
  }
}

}  // namespace easydel::serve
