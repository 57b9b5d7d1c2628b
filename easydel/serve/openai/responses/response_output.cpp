#include "easydel/serve/openai/responses/response_output.h"

#include <algorithm>

#include "easydel/serve/openai/ids.h"

namespace easydel::serve {
namespace {

bool response_is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

void response_append(Json& array, Json more) {
  for (Json& entry : more.as_array()) array.push_back(std::move(entry));
}

}  // namespace

Json ResponseOutput::event(std::initializer_list<std::pair<std::string_view, Json>> fields) const {
  Json event = Json::object({{"item_id", item_id_}, {"output_index", items_.size() - 1}});
  for (const auto& [name, value] : fields) event[name] = value;
  return event;
}

Json ResponseOutput::part(const char* type, const std::string& text) const {
  Json part = Json::object({{"type", type}, {"text", text}});
  if (open_ == Open::Message) {
    part["annotations"] = Json::array();
    part["logprobs"] = logprobs_;
  }
  return part;
}

void ResponseOutput::open(Open kind, Json item, const char* part_type) {
  close("completed");
  open_ = kind;
  item_id_ = item.at("id").as_string();
  text_.clear();
  logprobs_ = Json::array();
  items_.push_back(item);
  emit_("response.output_item.added", Json::object({{"output_index", items_.size() - 1}, {"item", std::move(item)}}));
  if (part_type) emit_("response.content_part.added", event({{"content_index", 0}, {"part", part(part_type, "")}}));
}

void ResponseOutput::close(std::string_view status) {
  if (open_ == Open::Nothing) return;
  Json& item = items_.as_array().back();
  item["status"] = status;
  if (open_ == Open::Call) {
    item["arguments"] = text_;
    emit_("response.function_call_arguments.done", event({{"name", item.at("name")}, {"arguments", text_}}));
  } else {
    const bool is_message = open_ == Open::Message;
    const Json whole = part(is_message ? "output_text" : "reasoning_text", text_);
    Json done = event({{"content_index", 0}, {"text", text_}});
    if (is_message) done["logprobs"] = logprobs_;
    emit_(is_message ? "response.output_text.done" : "response.reasoning_text.done", std::move(done));
    emit_("response.content_part.done", event({{"content_index", 0}, {"part", whole}}));
    item["content"] = Json::array({whole});
  }
  emit_("response.output_item.done", Json::object({{"output_index", items_.size() - 1}, {"item", item}}));
  open_ = Open::Nothing;
}

void ResponseOutput::add_reasoning(const std::string& text) {
  if (open_ != Open::Reasoning) {
    open(Open::Reasoning,
         Json::object({{"id", make_id("rs_")},
                       {"type", "reasoning"},
                       {"summary", Json::array()},
                       {"content", Json::array()},
                       {"status", "in_progress"}}),
         "reasoning_text");
  }
  text_ += text;
  reasoning_ += text;
  emit_("response.reasoning_text.delta", event({{"content_index", 0}, {"delta", text}}));
}

void ResponseOutput::add_text(const std::string& text) {
  if (open_ != Open::Message) {
    blank_ += text;
    // Between reasoning and calls stands white space that is no message.
    if (response_is_blank(blank_)) return;
    open(Open::Message,
         Json::object({{"id", make_id("msg_")},
                       {"type", "message"},
                       {"role", "assistant"},
                       {"status", "in_progress"},
                       {"content", Json::array()}}),
         "output_text");
  }
  const std::string delta = blank_.empty() ? text : std::exchange(blank_, {});
  text_ += delta;
  content_ += delta;
  Json logprobs = std::exchange(pending_logprobs_, Json::array());
  response_append(logprobs_, logprobs);
  emit_("response.output_text.delta",
        event({{"content_index", 0}, {"delta", delta}, {"logprobs", std::move(logprobs)}}));
}

void ResponseOutput::add_call(const ToolCallDelta& delta) {
  if (open_ != Open::Call || call_index_ != delta.index) {
    const std::string call_id = delta.id.empty() ? make_id("call_") : delta.id;
    open(Open::Call,
         Json::object({{"id", make_id("fc_")},
                       {"type", "function_call"},
                       {"status", "in_progress"},
                       {"call_id", call_id},
                       {"name", delta.name},
                       {"arguments", ""}}),
         nullptr);
    call_index_ = delta.index;
    calls_.push_back(Json::object({{"id", call_id},
                                   {"type", "function"},
                                   {"function", Json::object({{"name", delta.name}, {"arguments", ""}})}}));
  }
  if (delta.arguments.empty()) return;
  text_ += delta.arguments;
  calls_.as_array().back()["function"]["arguments"] = text_;
  emit_("response.function_call_arguments.delta", event({{"delta", delta.arguments}}));
}

void ResponseOutput::add(const MessageDelta& delta, Json logprobs) {
  response_append(pending_logprobs_, std::move(logprobs));
  if (!delta.reasoning.empty()) add_reasoning(delta.reasoning);
  if (!delta.content.empty()) add_text(delta.content);
  for (const ToolCallDelta& call : delta.tool_calls) add_call(call);
  // Tokens of reasoning and calls have none; those of text that is held back wait for it.
  if (open_ == Open::Reasoning || open_ == Open::Call) pending_logprobs_ = Json::array();
}

void ResponseOutput::finish(bool is_complete) {
  if (!blank_.empty() && calls_.size() == 0) {
    // The whole answer is white space.
    const std::string text = std::exchange(blank_, {});
    open(Open::Message,
         Json::object({{"id", make_id("msg_")},
                       {"type", "message"},
                       {"role", "assistant"},
                       {"status", "in_progress"},
                       {"content", Json::array()}}),
         "output_text");
    add_text(text);
  }
  if (open_ == Open::Message) response_append(logprobs_, std::exchange(pending_logprobs_, Json::array()));
  close(is_complete ? "completed" : "incomplete");
}

Json ResponseOutput::message() const {
  if (items_.size() == 0) return {};
  Json message = Json::object({{"role", "assistant"}, {"content", content_}});
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  if (calls_.size() > 0) message["tool_calls"] = calls_;
  return message;
}

}  // namespace easydel::serve
