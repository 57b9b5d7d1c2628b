#include "easydel/serve/openai/responses/response_items.h"

#include "easydel/serve/openai/chat_prompt.h"

namespace easydel::serve {
namespace {

// The messages that items make: calls and reasoning belong to one message of the assistant.
class ItemMessages {
 public:
  explicit ItemMessages(const Json& history) : history_(history) {}

  void add(const Json& item, const std::string& path) {
    require_field(item.is_object(), path, path, " must be an object; got ", item.type_name(), ".");
    Fields fields(item, path + ".");
    const std::string type = fields.string("type").value_or("message");
    fields.string("id");
    fields.string("status");
    if (type == "message") {
      add_message(fields, path);
    } else if (type == "function_call") {
      add_call(fields, path);
    } else if (type == "function_call_output") {
      add_output(fields, path);
    } else if (type == "reasoning") {
      add_reasoning(fields, path);
    } else {
      refuse_field(path + ".type", path, ".type \"", type,
                   "\" is not supported; it must be message, function_call, "
                   "function_call_output or reasoning.");
    }
    fields.refuse_rest();
  }

  // Reasoning after which nothing comes is a message of its own.
  Json take() {
    if (!reasoning_.empty()) assistant();
    return std::move(messages_);
  }

 private:
  void add_message(Fields& fields, const std::string& path) {
    const auto role = fields.string("role");
    require_field(role.has_value(), path + ".role", path, ".role is required.");
    const Json* content = fields.find("content");
    require_field(content != nullptr, path + ".content", path, ".content is required.");
    fields.string("phase");
    // A reasoning item before it belongs to it; otherwise each message is one of its own.
    Json& message = *role == "assistant" && !reasoning_.empty() ? assistant() : messages_.as_array().emplace_back();
    message["role"] = *role;
    message["content"] = *content;
  }

  void add_call(Fields& fields, const std::string& path) {
    Json function = Json::object();
    for (const char* name : {"name", "arguments"}) {
      const auto value = fields.string(name);
      require_field(value.has_value(), path + "." + name, path, ".", name, " is required.");
      function[name] = *value;
    }
    const auto id = fields.string("call_id");
    require_field(id.has_value(), path + ".call_id", path, ".call_id is required.");
    Json& message = assistant();
    message["tool_calls"].push_back(
        Json::object({{"id", *id}, {"type", "function"}, {"function", std::move(function)}}));
  }

  void add_output(Fields& fields, const std::string& path) {
    const auto id = fields.string("call_id");
    require_field(id.has_value(), path + ".call_id", path, ".call_id is required.");
    const Json* output = fields.find("output");
    require_field(output != nullptr, path + ".output", path, ".output is required.");
    const std::string name = name_of(*id);
    require_field(!name.empty(), path + ".call_id", "there is no function call with call_id \"", *id, "\".");
    messages_.push_back(Json::object({{"role", "tool"}, {"tool_call_id", *id}, {"name", name}, {"content", *output}}));
  }

  void add_reasoning(Fields& fields, const std::string& path) {
    require_field(!fields.find("encrypted_content"), path + ".encrypted_content", path,
                  ".encrypted_content is not supported.");
    for (const char* place : {"content", "summary"}) {
      const Json* parts = fields.array(place);
      // The summary stands for a text that is not there.
      if (!parts || (std::string_view(place) == "summary" && !reasoning_.empty())) continue;
      for (std::size_t i = 0; i < parts->size(); ++i) {
        const Json* text = parts->at(i).find("text");
        const std::string at = concat(path, ".", place, "[", i, "].text");
        require_field(text && text->is_string(), at, at, " is required.");
        reasoning_ += (reasoning_.empty() ? "" : "\n") + text->as_string();
      }
    }
  }

  // The message that calls and reasoning are a part of: the last one when it is the assistant's.
  Json& assistant() {
    auto& all = messages_.as_array();
    const bool goes_on = reasoning_.empty() && !all.empty() && all.back().at("role") == Json("assistant");
    if (!goes_on) all.push_back(Json::object({{"role", "assistant"}}));
    if (!reasoning_.empty()) all.back()["reasoning_content"] = std::exchange(reasoning_, {});
    return all.back();
  }

  std::string name_of(const std::string& call_id) const {
    for (const Json* messages : {&messages_, &history_}) {
      for (const Json& message : messages->as_array()) {
        const Json* calls = message.find("tool_calls");
        if (!calls) continue;
        for (const Json& call : calls->as_array()) {
          if (call.at("id") == Json(call_id)) return call.at("function").at("name").as_string();
        }
      }
    }
    return {};
  }

  const Json& history_;
  Json messages_ = Json::array();
  std::string reasoning_;
};

}  // namespace

Json read_response_items(const Json& input, const Json& history, const ServiceContext& context) {
  if (input.is_string()) return Json::array({Json::object({{"role", "user"}, {"content", input}})});
  require_field(input.is_array(), "input", "input must be a string or an array of items; got ", input.type_name(), ".");
  require_field(input.size() > 0, "input", "input must have at least one item.");
  ItemMessages messages(history);
  for (std::size_t i = 0; i < input.size(); ++i) messages.add(input.at(i), concat("input[", i, "]"));
  return read_messages(messages.take(), "input", context);
}

}  // namespace easydel::serve
