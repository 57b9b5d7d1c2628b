// What chats and completions have in common beside the sampling: how the answer is sent.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/event_stream.h"
#include "easydel/serve/openai/ids.h"

namespace easydel::serve {

struct AnswerSettings {
  std::string id;
  int64_t created = 0;
  ModelChoice model;
  std::string fingerprint;
  bool stream = false;
  bool include_usage = false;     // in a last chunk
  bool continuous_usage = false;  // in every chunk
  int64_t n = 1;
  int64_t priority = 0;
  bool tokens_as_ids = false;  // in logprobs
  bool return_token_ids = false;
  std::optional<int64_t> truncate_prompt_tokens;  // the last so many are kept; -1: as many as fit
};
// model, stream, stream_options, n, priority, request_id, return_tokens_as_token_ids, return_token_ids,
// truncate_prompt_tokens, and those without an effect: user, metadata, store=false, service_tier=auto …
AnswerSettings read_answer_settings(Fields& fields, const ServiceContext& context, std::string_view id_prefix);

void truncate_prompt(std::vector<int32_t>& tokens, const AnswerSettings& settings, const ServiceContext& context);
// {"id", "object", "created", "model", "system_fingerprint", "choices"}
Json answer_json(const AnswerSettings& settings, std::string_view object, Json choices);
// The text of answer_json up to its choices, for chunks that differ in nothing else.
std::string chunk_head(const AnswerSettings& settings, std::string_view object);
// {…, "choices": [choice]}, with "usage": null where it comes at the end.
std::string chunk_text(const AnswerSettings& settings, std::string_view head, std::string_view choice);
// Adds a step to the outputs so far.
void join_output(RequestOutput& all, const RequestOutput& next);
Json stop_reason_json(const RequestOutput& output);
// The request of choice `index`, whose seed differs from the others'.
Request choice_request(const Request& request, int64_t index);
// The tokens of an answer so far, over all its requests.
class UsageCounter {
 public:
  explicit UsageCounter(std::size_t requests, std::size_t per_prompt) : outputs_(requests), per_prompt_(per_prompt) {}
  void take(std::size_t index, const RequestOutput& output);
  void clear_completion(std::size_t index) { outputs_[index].completion_tokens = 0; }
  Usage total() const;
  Usage of(std::size_t index) const;

 private:
  std::vector<Usage> outputs_;
  std::size_t per_prompt_;  // requests with the same prompt, which counts once
};

// What is sent when an answer fails: the error's status, or an event when the stream has begun.
void send_failure(const HttpReply& reply, EventStream* stream, const ApiError& error);

}  // namespace easydel::serve
