// A request to /v1/chat/completions, read and checked.
#pragma once

#include "easydel/serve/engine/request.h"
#include "easydel/serve/openai/answer_settings.h"
#include "easydel/serve/openai/chat_prompt.h"

namespace easydel::serve {

struct ChatRequest {
  AnswerSettings settings;
  ChatPrompt prompt = {};
  Request request = {};  // of one choice
  std::string role = {};
  std::string echo = {};  // text that goes before the answer
  ToolSettings tools = {};
  bool include_reasoning = true;
};
ChatRequest read_chat_request(const ServiceContext& context, const Json& body);

}  // namespace easydel::serve
