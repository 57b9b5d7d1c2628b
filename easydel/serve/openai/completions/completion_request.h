// A request to /v1/completions, read and checked.
#pragma once

#include <string>
#include <vector>

#include "easydel/serve/engine/request.h"
#include "easydel/serve/openai/answer_settings.h"

namespace easydel::serve {

struct CompletionPrompt {
  std::vector<int32_t> tokens;
  std::string text;  // with echo
  int64_t max_tokens = 0;
};

struct CompletionRequest {
  AnswerSettings settings;
  std::vector<CompletionPrompt> prompts = {};
  SamplingParams sampling = {};  // without max_tokens
  bool echo = false;
  bool echo_alone = false;  // max_tokens=0: the prompt and nothing else; the engine draws one token for it
  bool returns_prompt_logprobs = false;
};
CompletionRequest read_completion_request(const ServiceContext& context, const Json& body);

}  // namespace easydel::serve
