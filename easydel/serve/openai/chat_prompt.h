// A conversation to tokens: messages, tools and the choice among them, through the chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/fields.h"

namespace easydel::serve {

enum class ToolChoice { None, Auto, Required, Named };

struct ToolSettings {
  Json tools = Json::array();  // as OpenAI writes them: {"type": "function", "function": {…}}
  ToolChoice choice = ToolChoice::None;
  std::string name;  // of Named
  bool parallel = true;

  bool is_forced() const { return choice == ToolChoice::Required || choice == ToolChoice::Named; }
};
// tools, tool_choice and parallel_tool_calls of a chat.
ToolSettings read_tools(Fields& fields);
// An array of {"name", "parameters"}, one for each call: what a forced choice must produce.
GrammarSpec tool_grammar(const ToolSettings& settings);

// The messages of a chat, checked, as templates take them: text parts joined, arguments of calls as objects.
Json read_messages(const Json& messages, const std::string& path, const ServiceContext& context);

struct ChatPrompt {
  std::vector<int32_t> tokens;
  std::string text;
  MessageFormat format;  // with starts_in_reasoning as the prompt ends; tools and reasoning empty where not parsed
};

struct ChatPromptInput {
  Json messages;  // of read_messages
  ToolSettings tools;
  std::optional<Json> documents;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
  std::string chat_template;  // empty: the service's
  Json variables = Json::object();
  std::optional<std::string> reasoning_effort;
};
ChatPrompt render_chat(const ServiceContext& context, const ChatPromptInput& input);

}  // namespace easydel::serve
