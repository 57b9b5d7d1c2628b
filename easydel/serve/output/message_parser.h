// Splits the text of an answer, as it arrives, into content, reasoning and tool calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/output/tool_spec.h"

namespace easydel::serve {

struct ToolCallDelta {
  int64_t index = 0;      // of the call in the answer
  std::string id, name;   // in the first delta of a call alone
  std::string arguments;  // the next piece of its JSON
};

struct MessageDelta {
  std::string content, reasoning;
  std::vector<ToolCallDelta> tool_calls;

  bool empty() const { return content.empty() && reasoning.empty() && tool_calls.empty(); }
};

// What was fed piece by piece gives the same message as fed at once. Nothing is lost: text that only looks like a call,
// or a call that breaks before it is told, comes out as content. A call is told once its name is known and its
// arguments begin; where it breaks later, what was told stays, and the text from there on is content.
class MessageParser {
 public:
  virtual ~MessageParser() = default;
  virtual MessageDelta feed(std::string_view text) = 0;
  virtual MessageDelta finish() = 0;  // what was held back
};

struct MessageFormat {
  std::string tools;                 // one of tool_formats(); empty: no tool calls
  std::string reasoning;             // one of reasoning_formats(); empty: none
  bool starts_in_reasoning = false;  // the prompt ends with the opening tag, as some templates write it

  // Whether the parsers read special tokens, so that the text must keep them.
  bool needs_special_tokens() const;
};

std::vector<std::string> tool_formats();
std::vector<std::string> reasoning_formats();
// What the chat template of a model writes; empty strings where nothing is recognized.
MessageFormat detect_message_format(std::string_view chat_template);
// Whether the prompt ends with what opens the reasoning: the value of starts_in_reasoning for this prompt.
bool ends_in_reasoning(const MessageFormat& format, std::string_view prompt);
// ConfigError for a name that is not known, with those that are. The tools are those of the request: where a format
// writes strings without quotes, their schemas say which values are strings.
std::unique_ptr<MessageParser> make_message_parser(const MessageFormat& format,
                                                   const std::vector<ToolSpec>& tools = {});

}  // namespace easydel::serve
