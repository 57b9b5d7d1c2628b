// Log-probabilities in the three shapes of the API: of chats, of completions and vLLM's of prompts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/engine/request.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel::serve {

// The bytes of a token, which may be a part of a character: "Ġa" of byte-level vocabularies is " a", "<0xE2>" one byte.
std::string token_bytes(const Tokenizer& tokenizer, int32_t id);
// The same as text, incomplete characters as U+FFFD; "token_id:17" when `as_id`.
std::string token_text(const Tokenizer& tokenizer, int32_t id, bool as_id = false);

// [{"token", "logprob", "bytes", "top_logprobs": […]}, …], for logprobs.content of a chat.
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const TokenLogprobs> logprobs, bool as_ids);

// {"text_offset", "token_logprobs", "tokens", "top_logprobs"} of a completion.
class CompletionLogprobs {
 public:
  CompletionLogprobs(const Tokenizer& tokenizer, bool as_ids) : tokenizer_(&tokenizer), as_ids_(as_ids) {}

  void add_unknown(int32_t id);  // the first token of a prompt
  void add(const TokenLogprobs& logprobs);
  Json take();  // what was added since; offsets count on
  bool empty() const { return tokens_.empty(); }

 private:
  void add_token(int32_t id);

  const Tokenizer* tokenizer_;
  bool as_ids_;
  int64_t offset_ = 0;  // in characters
  Json::Array offsets_, values_, tokens_, top_;
};

// [null, {"id": {"logprob", "rank", "decoded_token"}}, …]
Json prompt_logprobs_json(const Tokenizer& tokenizer, std::span<const TokenLogprobs> logprobs);

}  // namespace easydel::serve
