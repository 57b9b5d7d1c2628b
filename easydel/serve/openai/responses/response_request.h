// The body of POST /v1/responses, read and checked.
#pragma once

#include <string>

#include "easydel/serve/openai/chat_prompt.h"
#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/responses/response_store.h"

namespace easydel::serve {

struct ResponseRequest {
  Request request;
  MessageFormat format;
  ToolSettings tools;
  bool stream = false;
  bool store = true;
  Json messages;  // the conversation, without the instructions
  Json echo;      // the fields of the answer that say what was asked for
};

// 400 for a field that is not supported, by its name, and for a previous_response_id that is not in the store.
ResponseRequest read_response_request(const ServiceContext& context, ResponseStore& store, const Json& body);

}  // namespace easydel::serve
