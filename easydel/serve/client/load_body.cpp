// What HttpLoad sends and how it reads the answers.
#include "easydel/core/error.h"
#include "easydel/serve/client/http_load.h"

namespace easydel::serve {
namespace {

const std::string* load_text(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

// The text of a piece; null when it has no token. The first piece of a chat has the role alone, the last one nothing.
const std::string* load_chat_piece(const Json& choice) {
  static const std::string empty;
  const Json* delta = choice.find("delta");
  if (!delta) return nullptr;
  for (const char* key : {"content", "reasoning_content", "reasoning"}) {
    const std::string* text = load_text(*delta, key);
    if (text && !(text->empty() && delta->contains("role"))) return text;
  }
  return delta->contains("tool_calls") ? &empty : nullptr;
}

void take_load_usage(const Json& usage, LoadRecord& record) {
  if (const Json* tokens = usage.find("prompt_tokens")) record.prompt_tokens = tokens->as_int();
  if (const Json* tokens = usage.find("completion_tokens")) record.output_tokens = tokens->as_int();
  const Json* details = usage.find("prompt_tokens_details");
  const Json* cached = details ? details->find("cached_tokens") : nullptr;
  if (cached && cached->is_int()) record.cached_tokens = cached->as_int();
}

}  // namespace

Json load_body(const LoadRequest& request, const HttpLoadOptions& options) {
  Json body = Json::object({{"model", options.model}});
  if (options.is_chat()) {
    require<ConfigError>(request.ids.empty(), "[load_body] ", options.endpoint, " takes no token ids; give texts.");
    const Json user = Json::object({{"role", "user"}, {"content", request.text}});
    body["messages"] = request.messages.is_null() ? Json::array({user}) : request.messages;
    body["max_completion_tokens"] = request.max_tokens;
  } else {
    require<ConfigError>(request.messages.is_null(), "[load_body] ", options.endpoint,
                         " takes a prompt; messages go to /v1/chat/completions.");
    body["prompt"] = request.ids.empty() ? Json(request.text) : Json(request.ids);
    body["max_tokens"] = request.max_tokens;
  }
  body["temperature"] = options.temperature;
  body["stream"] = true;
  body["stream_options"] = Json::object({{"include_usage", true}});
  if (options.ignore_eos) body["ignore_eos"] = true;
  return body;
}

bool take_load_event(std::string_view data, double now, LoadRecord& record) {
  if (data == "[DONE]") return false;
  const Json event = Json::parse(data, {.where = "an event of the server"});
  if (const Json* error = event.find("error"); error && !error->is_null()) {
    const std::string* message = load_text(*error, "message");
    record.error = message ? *message : error->dump();
    return true;
  }
  if (const Json* usage = event.find("usage"); usage && usage->is_object()) take_load_usage(*usage, record);
  const Json* choices = event.find("choices");
  if (!choices || choices->size() == 0) return true;
  const Json& choice = choices->at(std::size_t{0});
  // As vLLM counts them: every piece of a completion is one, even if its text is empty.
  const bool is_chat = choice.contains("delta");
  const std::string* text = is_chat ? load_chat_piece(choice) : load_text(choice, "text");
  if (is_chat && !text) return true;
  record.add_piece(now);
  if (text) record.text += *text;
  return true;
}

}  // namespace easydel::serve
