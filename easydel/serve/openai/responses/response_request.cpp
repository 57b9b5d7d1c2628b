#include "easydel/serve/openai/responses/response_request.h"

#include <array>

#include "easydel/serve/openai/ids.h"
#include "easydel/serve/openai/responses/response_items.h"
#include "easydel/serve/openai/sampling_fields.h"

namespace easydel::serve {
namespace {

constexpr std::array<RefusedField, 9> kResponseRefused{{
    {"conversation", "use previous_response_id, or send the items again"},
    {"prompt", "there are no stored prompts; send instructions and input"},
    {"context_management", "the context is not compacted"},
    {"moderation", "there is no moderation"},
    {"prompt_cache_options", "the prefix cache has no settings of a request"},
    {"image", "this model accepts only text"},
    {"access_programs", "there are none"},
    {"max_tokens", "its name is max_output_tokens here"},
    {"response_format", "its name is text.format here"},
}};

// Accepted with the value that changes nothing.
void response_neutral(Fields& fields) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) fields.string(name);
  require_field(!fields.boolean("background", false), "background",
                "background must be false: responses do not run in the background.");
  const auto tier = fields.string("service_tier");
  require_field(!tier || *tier == "auto" || *tier == "default", "service_tier",
                "service_tier must be auto or default; got \"", tier.value_or(""), "\".");
  const auto truncation = fields.string("truncation");
  require_field(!truncation || *truncation == "disabled", "truncation", "truncation must be disabled; got \"",
                truncation.value_or(""), "\".");
  const auto retention = fields.string("prompt_cache_retention");
  require_field(!retention || *retention == "in_memory" || *retention == "in-memory", "prompt_cache_retention",
                "prompt_cache_retention must be in_memory; got \"", retention.value_or(""), "\".");
  fields.integer("max_tool_calls", 0);  // of tools that run on the server, of which there are none
  if (const Json* given = fields.object("stream_options")) {
    Fields options(*given, "stream_options.");
    require_field(!options.boolean("include_obfuscation", false), "stream_options.include_obfuscation",
                  "stream_options.include_obfuscation must be false: events are not padded.");
    options.refuse_rest();
  }
}

void response_metadata(Fields& fields) {
  const Json* metadata = fields.object("metadata");
  if (!metadata) return;
  require_field(metadata->size() <= 16, "metadata", "metadata must have at most 16 entries; got ", metadata->size(),
                ".");
  for (const auto& [key, value] : metadata->as_object()) {
    require_field(value.is_string(), "metadata." + key, "metadata.", key, " must be a string; got ", value.type_name(),
                  ".");
  }
}

// {"type": "function", "name", …} as a chat has it: {"type": "function", "function": {"name", …}}.
Json response_chat_tool(const Json& tool, const std::string& path) {
  Fields fields(tool, path + ".");
  const std::string type = fields.string("type").value_or("");
  require_field(type == "function", path + ".type", path, ".type \"", type, "\" is not supported; tools must be ",
                "functions.");
  fields.string("name");
  fields.string("description");
  fields.object("parameters");
  fields.boolean("strict");
  fields.refuse_rest();
  Json function = Json::object();
  for (const char* name : {"name", "description", "parameters", "strict"}) {
    if (const Json* value = fields.find(name)) function[name] = *value;
  }
  return Json::object({{"type", "function"}, {"function", std::move(function)}});
}

Json response_chat_choice(const Json& choice) {
  if (!choice.is_object()) return choice;
  Fields fields(choice, "tool_choice.");
  const std::string type = fields.string("type").value_or("");
  if (type == "allowed_tools") {
    Json tools = Json::array();
    const Json* given = fields.array("tools");
    require_field(given != nullptr, "tool_choice.tools", "tool_choice.tools is required.");
    const std::string mode = fields.string("mode").value_or("auto");
    fields.refuse_rest();
    for (std::size_t i = 0; i < given->size(); ++i) {
      tools.push_back(response_chat_tool(given->at(i), concat("tool_choice.tools[", i, "]")));
    }
    return Json::object(
        {{"type", type}, {"allowed_tools", Json::object({{"mode", mode}, {"tools", std::move(tools)}})}});
  }
  require_field(type == "function", "tool_choice.type", "tool_choice.type \"", type,
                "\" is not supported; it must be function or allowed_tools.");
  const auto name = fields.string("name");
  require_field(name.has_value(), "tool_choice.name", "tool_choice.name is required.");
  fields.refuse_rest();
  return Json::object({{"type", "function"}, {"function", Json::object({{"name", *name}})}});
}

ToolSettings response_tools(Fields& fields) {
  Json chat = Json::object();
  if (const Json* tools = fields.array("tools")) {
    chat["tools"] = Json::array();
    for (std::size_t i = 0; i < tools->size(); ++i) {
      chat["tools"].push_back(response_chat_tool(tools->at(i), concat("tools[", i, "]")));
    }
  }
  if (const Json* choice = fields.find("tool_choice")) {
    require_field(choice->is_string() || choice->is_object(), "tool_choice",
                  "tool_choice must be a string or an object; got ", choice->type_name(), ".");
    chat["tool_choice"] = response_chat_choice(*choice);
  }
  if (const Json* parallel = fields.find("parallel_tool_calls")) chat["parallel_tool_calls"] = *parallel;
  Fields inner(chat);
  return read_tools(inner);
}

std::optional<GrammarSpec> response_format(Fields& fields, Json& echo) {
  echo["text"] = Json::object({{"format", Json::object({{"type", "text"}})}, {"verbosity", "medium"}});
  const Json* text = fields.object("text");
  if (!text) return std::nullopt;
  Fields inner(*text, "text.");
  const auto verbosity = inner.string("verbosity");
  require_field(!verbosity || *verbosity == "medium", "text.verbosity", "text.verbosity must be medium; got \"",
                verbosity.value_or(""), "\".");
  const Json* format = inner.object("format");
  inner.refuse_rest();
  if (!format) return std::nullopt;
  echo["text"]["format"] = *format;
  return read_format(*format, "text.format", /*flat=*/true);
}

std::optional<std::string> response_effort(Fields& fields, Json& echo) {
  echo["reasoning"] = Json::object({{"effort", Json()}, {"summary", Json()}});
  const Json* reasoning = fields.object("reasoning");
  if (!reasoning) return std::nullopt;
  static constexpr std::array<RefusedField, 2> kRefused{
      {{"summary", "reasoning is answered as it is"}, {"generate_summary", "reasoning is answered as it is"}}};
  Fields inner(*reasoning, "reasoning.");
  const auto effort = inner.string("effort");
  inner.refuse_rest(kRefused);
  if (effort) echo["reasoning"]["effort"] = *effort;
  return effort;
}

// Log-probabilities come when `include` names them; top_logprobs says how many of the most likely tokens.
std::optional<int64_t> response_logprobs(Fields& fields, const ServiceContext& context) {
  const int64_t top = fields.integer("top_logprobs", 0, context.options.max_logprobs).value_or(0);
  bool is_wanted = top > 0;
  for (const std::string& name : fields.strings("include")) {
    require_field(name == "message.output_text.logprobs", "include", "include \"", name,
                  "\" is not supported; it may have message.output_text.logprobs.");
    is_wanted = true;
  }
  return is_wanted ? std::optional(top) : std::nullopt;
}

// What was asked for, as the answer tells it.
void response_echo(Fields& fields, const SamplingParams& sampling, const ToolSettings& tools, Json& echo) {
  const auto given = [&](const char* name, Json otherwise) {
    const Json* value = fields.find(name);
    echo[name] = value ? *value : std::move(otherwise);
  };
  given("instructions", {});
  given("max_output_tokens", {});
  given("max_tool_calls", {});
  given("metadata", Json::object());
  given("previous_response_id", {});
  given("prompt_cache_key", {});
  given("safety_identifier", {});
  given("user", {});
  given("tools", Json::array());
  given("tool_choice", "auto");
  given("top_logprobs", 0);
  echo["parallel_tool_calls"] = tools.parallel;
  echo["temperature"] = sampling.temperature;
  echo["top_p"] = sampling.top_p;
  echo["truncation"] = "disabled";
  echo["background"] = false;
  echo["service_tier"] = "default";
}

Json response_history(Fields& fields, ResponseStore& store) {
  const auto id = fields.string("previous_response_id");
  if (!id) return Json::array();
  auto found = store.get(*id);
  if (!found) {
    throw ApiError(400, concat("Previous response with id '", *id, "' not found."), "previous_response_id",
                   "previous_response_not_found");
  }
  return std::move(found->messages);
}

// The instructions go before the conversation, and are not part of what the next response continues.
Json response_prompt_messages(const std::optional<std::string>& instructions, const Json& messages) {
  Json all = Json::array();
  if (instructions) all.push_back(Json::object({{"role", "system"}, {"content", *instructions}}));
  for (const Json& message : messages.as_array()) all.push_back(message);
  return all;
}

}  // namespace

ResponseRequest read_response_request(const ServiceContext& context, ResponseStore& store, const Json& body) {
  Fields fields(body);
  ResponseRequest response{.request = {}, .format = {}, .tools = {}, .messages = {}, .echo = Json::object()};
  const ModelChoice model = choose_model(context, fields);
  response.echo["model"] = model.name;
  response.stream = fields.boolean("stream", false);
  response.store = fields.boolean("store", true);
  response.echo["store"] = response.store;
  response_neutral(fields);
  response_metadata(fields);
  SamplingParams sampling = read_sampling(fields, context);
  require_field(!sampling.prompt_logprobs, "prompt_logprobs", "prompt_logprobs is not supported here.");
  sampling.logprobs = response_logprobs(fields, context);
  const auto format = response_format(fields, response.echo);
  ChatPromptInput input;
  input.tools = response_tools(fields);
  input.reasoning_effort = response_effort(fields, response.echo);
  if (const Json* variables = fields.object("chat_template_kwargs")) input.variables = *variables;
  const int64_t priority = fields.integer("priority").value_or(0);
  const auto most = fields.integer("max_output_tokens", 1);
  const auto instructions = fields.string("instructions");
  const Json* given = fields.find("input");
  require_field(given != nullptr, "input", "input is required.");
  response.messages = response_history(fields, store);
  fields.refuse_rest(kResponseRefused);

  const Json fresh = read_response_items(*given, response.messages, context);
  for (const Json& message : fresh.as_array()) response.messages.push_back(message);
  input.messages = response_prompt_messages(instructions, response.messages);
  ChatPrompt prompt = render_chat(context, input);
  sampling.grammar = answer_grammar(format, input.tools, prompt.format);
  if (prompt.format.needs_special_tokens()) sampling.skip_special_tokens = false;
  response_echo(fields, sampling, input.tools, response.echo);
  sampling.max_tokens = token_limit(context, static_cast<int64_t>(prompt.tokens.size()), most, "max_output_tokens");
  response.format = prompt.format;
  response.tools = std::move(input.tools);
  response.request = {.prompt = std::move(prompt.tokens),
                      .sampling = std::move(sampling),
                      .priority = priority,
                      .adapter = model.adapter,
                      .kind = RequestKind::Generate};
  return response;
}

}  // namespace easydel::serve
