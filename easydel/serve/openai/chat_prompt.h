// A conversation to tokens: messages, tools and the choice among them, through the chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/fields.h"
#include "easydel/serve/output/tool_spec.h"

namespace easydel::serve {

struct ToolSettings {
  Json tools = Json::array();  // as OpenAI writes them: {"type": "function", "function": {…}}
  ToolChoice choice = ToolChoice::None;
  std::string name;  // of Named
  bool parallel = true;

  bool is_forced() const { return choice == ToolChoice::Required || choice == ToolChoice::Named; }
  std::vector<ToolSpec> specs() const;  // those that may be called
};
// tools, tool_choice and parallel_tool_calls of a chat.
ToolSettings read_tools(Fields& fields);
// What the whole answer must look like: the format asked for, or the calls that are forced or strict, after the model's
// reasoning. 400 for a format together with a forced call.
std::optional<GrammarSpec> answer_grammar(const std::optional<GrammarSpec>& format, const ToolSettings& tools,
                                          const MessageFormat& parsed);

// The messages of a chat, checked, as templates take them: text parts joined, arguments of calls as objects. Images
// are appended to `images` as the bytes of their files, and their messages keep their parts; without it they are
// refused.
Json read_messages(const Json& messages, const std::string& path, const ServiceContext& context,
                   std::vector<std::string>* images = nullptr);

struct ChatPrompt {
  std::vector<int32_t> tokens;
  std::string text;
  std::shared_ptr<const ImageInputs> images;  // null: none
  MessageFormat format;  // with starts_in_reasoning as the prompt ends; tools and reasoning empty where not parsed
};

struct ChatPromptInput {
  Json messages;                    // of read_messages
  std::vector<std::string> images;  // likewise
  ToolSettings tools;
  std::optional<Json> documents;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
  std::string chat_template;  // empty: the service's
  Json variables = Json::object();
  std::optional<std::string> reasoning_effort;
};
// What chats and /tokenize have in common: messages, tools and how to render them.
ChatPromptInput read_chat_prompt(Fields& fields, const Json& messages, const ServiceContext& context);
ChatPrompt render_chat(const ServiceContext& context, const ChatPromptInput& input);

}  // namespace easydel::serve
