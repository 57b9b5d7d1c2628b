#include "easydel/serve/openai/chat_choice.h"

#include <iterator>

#include "easydel/serve/openai/ids.h"

namespace easydel::serve {

ChatChoice::ChatChoice(const MessageFormat& format, ToolChoice tool_choice, bool parallel_tool_calls,
                       bool include_reasoning, const std::vector<ToolSpec>& tools)
    : parser_(make_message_parser(format, tools)),
      tool_choice_(tool_choice),
      parallel_(parallel_tool_calls),
      include_reasoning_(include_reasoning) {}

void ChatChoice::add(MessageDelta& delta) {
  if (!include_reasoning_) delta.reasoning.clear();
  content_ += delta.content;
  reasoning_ += delta.reasoning;
  std::erase_if(delta.tool_calls, [&](const ToolCallDelta& call) { return !parallel_ && call.index > 0; });
  for (ToolCallDelta& call : delta.tool_calls) {
    const auto index = static_cast<std::size_t>(call.index);
    if (index >= calls_.size()) {
      calls_.resize(index + 1);
      if (call.id.empty()) call.id = make_id("call_");
      calls_[index].id = call.id;
    }
    calls_[index].name += call.name;
    calls_[index].arguments += call.arguments;
  }
}

MessageDelta ChatChoice::take(const RequestOutput& output) {
  MessageDelta delta = parser_->feed(output.text);
  if (output.finish) {
    finish_ = output.finish;
    MessageDelta rest = parser_->finish();
    delta.content += rest.content;
    delta.reasoning += rest.reasoning;
    std::move(rest.tool_calls.begin(), rest.tool_calls.end(), std::back_inserter(delta.tool_calls));
  }
  add(delta);
  return delta;
}

std::string ChatChoice::finish_reason() const {
  if (finish_ == Finish::Length) return "length";
  // A call that was named is what was asked for, and ends as any answer, as OpenAI has it.
  return !calls_.empty() && tool_choice_ != ToolChoice::Named ? "tool_calls" : "stop";
}

Json ChatChoice::message(const std::string& role, const std::string& echo) const {
  const std::string content = echo + content_;
  Json message = Json::object(
      {{"role", role}, {"content", content.empty() && !calls_.empty() ? Json() : Json(content)}, {"refusal", Json()}});
  if (!reasoning_.empty()) {
    message["reasoning_content"] = reasoning_;
    message["reasoning"] = reasoning_;
  }
  if (calls_.empty()) return message;
  Json calls = Json::array();
  for (const ChatCall& call : calls_) {
    calls.push_back(Json::object({{"id", call.id},
                                  {"type", "function"},
                                  {"function", Json::object({{"name", call.name}, {"arguments", call.arguments}})}}));
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

Json delta_json(const MessageDelta& delta) {
  Json json = Json::object();
  if (!delta.content.empty()) json["content"] = delta.content;
  if (!delta.reasoning.empty()) {
    json["reasoning_content"] = delta.reasoning;
    json["reasoning"] = delta.reasoning;
  }
  if (delta.tool_calls.empty()) return json;
  Json calls = Json::array();
  for (const ToolCallDelta& call : delta.tool_calls) {
    Json function = Json::object();
    if (!call.name.empty()) function["name"] = call.name;
    function["arguments"] = call.arguments;
    Json one = Json::object({{"index", call.index}});
    if (!call.id.empty()) {
      one["id"] = call.id;
      one["type"] = "function";
    }
    one["function"] = std::move(function);
    calls.push_back(std::move(one));
  }
  json["tool_calls"] = std::move(calls);
  return json;
}

}  // namespace easydel::serve
