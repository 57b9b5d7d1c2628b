// The input of a response as messages of a chat.
#pragma once

#include <string>

#include "easydel/core/json/json.h"
#include "easydel/serve/openai/context.h"

namespace easydel::serve {

// A text, or items: messages, function calls, their outputs and reasoning. 400 for any other kind, by its name.
// `history`: messages before these, where the names of functions are looked up.
Json read_response_items(const Json& input, const Json& history, const ServiceContext& context);

}  // namespace easydel::serve
