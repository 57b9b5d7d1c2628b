// Ids, times and usage of answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "easydel/core/json/json.h"

namespace easydel::serve {

std::string make_id(std::string_view prefix);  // "chatcmpl-" and 32 random hexadecimal digits
int64_t unix_time();

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};
// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details": {"cached_tokens"}}
Json usage_json(const Usage& usage);

}  // namespace easydel::serve
