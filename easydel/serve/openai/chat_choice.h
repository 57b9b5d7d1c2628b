// One choice of a chat as it grows: the message, its calls and how it ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/engine/request.h"
#include "easydel/serve/openai/chat_prompt.h"
#include "easydel/serve/output/message_parser.h"

namespace easydel::serve {

struct ChatCall {
  std::string id, name, arguments;
};

class ChatChoice {
 public:
  ChatChoice(const MessageFormat& format, ToolChoice tool_choice, bool parallel_tool_calls, bool include_reasoning,
             const std::vector<ToolSpec>& tools = {});

  // What an output adds, with ids for the calls that have none; what is not wanted is left out.
  MessageDelta take(const RequestOutput& output);
  bool has_ended() const { return finish_.has_value(); }
  std::string finish_reason() const;  // stop, length or tool_calls

  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }
  const std::vector<ChatCall>& calls() const { return calls_; }
  Json message(const std::string& role, const std::string& echo) const;

 private:
  void add(MessageDelta& delta);

  std::unique_ptr<MessageParser> parser_;
  ToolChoice tool_choice_;
  bool parallel_, include_reasoning_;
  std::string content_, reasoning_;
  std::vector<ChatCall> calls_;
  std::optional<Finish> finish_;
};

// {"content", "reasoning_content", "reasoning", "tool_calls"}, those that are there.
Json delta_json(const MessageDelta& delta);

}  // namespace easydel::serve
