#include "easydel/serve/openai/chat_prompt.h"

#include <algorithm>
#include <array>

#include "easydel/serve/openai/chat_images.h"
#include "easydel/tokenizers/chat_parts.h"

namespace easydel::serve {
namespace {

constexpr std::array<std::string_view, 6> kChatRoles{"system", "developer", "user", "assistant", "tool", "function"};

// Where a message's images go; null where it may have none.
struct ImageList {
  const ServiceContext& context;
  std::vector<std::string>* images;
  FetchBudget& budget;
};

// Text parts of a content, joined as vLLM joins them; the parts themselves where there is an image.
Json chat_parts(const Json& parts, const std::string& path, const ImageList& list) {
  std::string text;
  Json kept = Json::array();
  bool has_image = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string at = concat(path, "[", i, "]");
    Fields fields(parts.at(i), at + ".");
    const std::string type = fields.string("type").value_or("");
    if (type == "image_url" && list.images) {
      list.images->push_back(read_image(fields, at, list.context, list.budget));
      kept.push_back(Json::object({{"type", "image"}}));
      has_image = true;
      continue;
    }
    const bool is_text = type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
    require_field(is_text, at + ".type", at, " has type \"", type, "\"; ",
                  list.context.vision ? "text and, of users in chat completions, image_url are taken."
                                      : "this model does not accept images.");
    const auto value = fields.string(type == "refusal" ? "refusal" : "text");
    require_field(value.has_value(), at + ".text", at, ".text is required.");
    text += (i == 0 ? "" : "\n") + *value;
    kept.push_back(Json::object({{"type", "text"}, {"text", *value}}));
  }
  return has_image ? kept : Json(text);
}

// Templates take the arguments of a call as an object; OpenAI writes them as a string.
Json chat_calls(const Json& calls, const std::string& path) {
  require_field(calls.is_array(), path, path, " must be an array; got ", calls.type_name(), ".");
  Json out = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string at = concat(path, "[", i, "].function");
    Json call = calls.at(i);
    const Json* function = call.find("function");
    require_field(function && function->find("name") && function->at("name").is_string(), at, at,
                  " must have a name; got ", call.dump(), ".");
    const Json* arguments = function->find("arguments");
    if (arguments && arguments->is_string()) {
      const std::string text = arguments->as_string();
      try {
        call["function"]["arguments"] = text.empty() ? Json::object() : Json::parse(text);
      } catch (const FormatError& error) {
        refuse_field(at + ".arguments", at, ".arguments must be JSON: ", error.what());
      }
    }
    out.push_back(std::move(call));
  }
  return out;
}

Json chat_message(const Json& given, const std::string& path, bool knows_developer, ImageList list) {
  require_field(given.is_object(), path, path, " must be an object; got ", given.type_name(), ".");
  Json message = Json::object();
  for (const auto& [key, value] : given.as_object()) {
    if (value.is_null()) continue;
    const bool is_refused = key == "audio" || key == "function_call";
    require_field(!is_refused, path + "." + key, path, ".", key, " is not supported.");
    if (key == "annotations" && value.size() == 0) continue;
    message[key] = value;
  }
  const Json* role = message.find("role");
  require_field(role && role->is_string(), path + ".role", path, ".role is required.");
  const bool is_known = std::find(kChatRoles.begin(), kChatRoles.end(), role->as_string()) != kChatRoles.end();
  require_field(is_known && role->as_string() != "function", path + ".role", path,
                ".role must be system, developer, user, assistant or tool; got \"", role->as_string(), "\".");
  if (role->as_string() == "developer" && !knows_developer) message["role"] = "system";
  if (const Json* calls = message.find("tool_calls")) {
    message["tool_calls"] = chat_calls(*calls, path + ".tool_calls");
    if (message.at("tool_calls").size() == 0) message.as_object().erase("tool_calls");
  }
  const Json* content = message.find("content");
  const bool may_lack = message.contains("tool_calls") || message.contains("refusal");
  require_field(content || may_lack || message.at("role") == Json("assistant"), path + ".content", path,
                ".content is required.");
  if (!content) {
    message["content"] = message.contains("refusal") ? message.at("refusal") : Json("");
  } else if (content->is_array()) {
    if (message.at("role") != Json("user")) list.images = nullptr;
    message["content"] = chat_parts(*content, path + ".content", list);
  } else {
    require_field(content->is_string(), path + ".content", path, ".content must be a string or an array of parts; got ",
                  content->type_name(), ".");
  }
  message.as_object().erase("refusal");
  return message;
}

void chat_effort(const std::string& effort, const std::string& source, Json& variables) {
  const auto reads = [&](std::string_view name) { return source.find(name) != std::string::npos; };
  if (reads("reasoning_effort")) {
    variables["reasoning_effort"] = effort;
  } else {
    require_field(reads("enable_thinking"), "reasoning_effort",
                  "reasoning_effort is not supported: the model's chat template does not read it.");
    variables["enable_thinking"] = effort != "none" && effort != "minimal";
  }
}

MessageFormat chat_format(const ServiceContext& context, const ToolSettings& tools, const std::string& prompt) {
  MessageFormat format = context.format;
  if (tools.choice == ToolChoice::None) format.tools.clear();
  if (tools.is_forced() && format.tools.empty()) format.tools = format.reasoning == "harmony" ? "harmony" : "json";
  require_field(tools.choice != ToolChoice::Auto || !format.tools.empty(), "tool_choice",
                "tool_choice \"auto\" needs a tool parser, and the model's chat template shows none. Start the server "
                "with one, or use tool_choice \"required\" or a function.");
  format.starts_in_reasoning = ends_in_reasoning(format, prompt);
  return format;
}

}  // namespace

Json read_messages(const Json& messages, const std::string& path, const ServiceContext& context,
                   std::vector<std::string>* images) {
  require_field(messages.is_array(), path, path, " must be an array; got ", messages.type_name(), ".");
  require_field(messages.size() > 0, path, path, " must have at least one message.");
  const std::string* source = context.templates.find("default");
  const bool knows_developer = source && source->find("developer") != std::string::npos;
  Json out = Json::array();
  FetchBudget budget;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    out.push_back(chat_message(messages.at(i), concat(path, "[", i, "]"), knows_developer, {context, images, budget}));
  }
  return out;
}

ChatPromptInput read_chat_prompt(Fields& fields, const Json& messages, const ServiceContext& context) {
  ChatPromptInput input;
  input.messages = read_messages(messages, "messages", context, context.vision ? &input.images : nullptr);
  input.tools = read_tools(fields);
  input.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  input.continue_final_message = fields.boolean("continue_final_message", false);
  require_field(!input.add_generation_prompt || !input.continue_final_message, "continue_final_message",
                "continue_final_message needs add_generation_prompt=false.");
  input.add_special_tokens = fields.boolean("add_special_tokens", false);
  if (const auto source = fields.string("chat_template")) {
    require_field(context.options.trust_request_chat_template, "chat_template",
                  "chat_template is not supported: this server renders its own template alone.");
    input.chat_template = *source;
  }
  if (const Json* variables = fields.object("chat_template_kwargs")) input.variables = *variables;
  return input;
}

ChatPrompt render_chat(const ServiceContext& context, const ChatPromptInput& input) {
  const bool with_tools = input.tools.choice != ToolChoice::None;
  const ChatTemplate chat_template =
      input.chat_template.empty() ? context.chat_template(with_tools) : ChatTemplate(input.chat_template);
  Json variables = context.tokenizer.config().template_variables();
  for (const auto& [name, value] : input.variables.as_object()) variables[name] = value;
  if (input.reasoning_effort) chat_effort(*input.reasoning_effort, chat_template.source(), variables);
  Json messages = input.messages;
  if (context.vision) messages = fit_contents(messages, chat_template.source(), context.vision->image_token());
  ChatInput chat{.messages = std::move(messages),
                 .tools = with_tools ? std::optional(input.tools.tools) : std::nullopt,
                 .documents = input.documents,
                 .add_generation_prompt = input.add_generation_prompt,
                 .continue_final_message = input.continue_final_message ? "content" : "",
                 .variables = std::move(variables),
                 .now = {}};
  ChatPrompt prompt;
  prompt.text = chat_template.render(chat).text;
  if (!input.images.empty()) {
    prompt.images = std::make_shared<ImageInputs>(process_images(input.images, *context.vision));
    prompt.text = context.vision->expand(prompt.text, *prompt.images);
  }
  prompt.tokens = context.tokenizer->encode_ids(prompt.text, input.add_special_tokens);
  prompt.format = chat_format(context, input.tools, prompt.text);
  return prompt;
}

}  // namespace easydel::serve
