// A request to the engine: tokens in, how to continue them, and what comes back step by step. No torch here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace easydel {
struct ImageInputs;  // processors/vision_processor.h
}

namespace easydel::serve {

// What an answer must look like.
struct GrammarSpec {
  enum class Kind { JsonObject, JsonSchema, Regex, Ebnf, Choice, StructuralTag };
  Kind kind = Kind::JsonObject;
  std::string text;                  // the schema, the regular expression, the grammar or the tags
  std::vector<std::string> choices;  // of Kind::Choice

  friend bool operator==(const GrammarSpec&, const GrammarSpec&) = default;
};

// How the next token is chosen, under vLLM's names and with its defaults.
struct SamplingParams {
  double temperature = 1.0;  // below 1e-5, as 0: always the most likely token
  int64_t top_k = 0;         // 0: all tokens
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  double repetition_penalty = 1.0;  // of tokens of the prompt and of the answer
  double presence_penalty = 0.0;    // of tokens of the answer
  double frequency_penalty = 0.0;
  std::map<int32_t, double> logit_bias;
  std::optional<uint64_t> seed;       // absent: drawn by the engine
  std::optional<int64_t> max_tokens;  // absent: as many as the context holds
  int64_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;         // in the text
  std::optional<int64_t> logprobs;         // of each new token, with this many of the most likely ones
  std::optional<int64_t> prompt_logprobs;  // the same for each token of the prompt but the first
  std::optional<GrammarSpec> grammar;

  bool is_greedy() const { return temperature < 1e-5; }  // differences of scores divided by less may be infinite
  // ConfigError names the parameter, what was given, and what it may be.
  void validate(int64_t vocab_size) const;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0F;
};

// The log-probability of a token by the model's own distribution, before temperature and penalties.
struct TokenLogprobs {
  TokenLogprob chosen;
  int64_t rank = 0;               // how many tokens are at least as likely, itself counted
  std::vector<TokenLogprob> top;  // the most likely ones, best first
};

enum class RequestKind : uint8_t {
  Generate,
  Embed,     // the last hidden state of the last token
  Classify,  // the logits of a model with a classification head
};

struct Request {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t priority = 0;  // lower goes first
  std::string adapter;   // the name of a loaded adapter; empty: the model as it is
  RequestKind kind = RequestKind::Generate;
  std::shared_ptr<const ImageInputs> images = {};  // for the placeholders of the prompt, in their order
};

enum class Finish : uint8_t {
  Stop,       // an end token, a stop token or a stop string
  Length,     // max_tokens, or the end of the context
  Cancelled,  // by cancel
  Error,      // see RequestOutput::error
};
std::string_view finish_name(Finish finish);  // "stop", "length", "cancelled", "error"

// What a step added to a request. The last one of a request has `finish`.
struct RequestOutput {
  std::vector<int32_t> tokens;                 // new ones, an end token included
  std::string text;                            // new text: whole characters, and nothing that may become a stop string
  std::vector<TokenLogprobs> logprobs;         // of `tokens`, if requested
  std::vector<TokenLogprobs> prompt_logprobs;  // in the first output, if requested; entry 0 is of the second token
  std::vector<float> embedding;                // of Embed and Classify
  std::optional<Finish> finish;
  bool is_refusal = false;  // of Finish::Error: the request itself is wrong, such as a grammar that does not compile
  std::variant<std::monostate, int32_t, std::string> stop_reason;  // the stop token or string; none for an end token
  std::string error;                                               // of Finish::Error
  int64_t prompt_tokens = 0;                                       // of the whole request so far
  int64_t cached_tokens = 0;                                       // of the prompt, found in the prefix cache
  int64_t output_tokens = 0;
};

using RequestId = uint64_t;
// Called on the engine's thread for each step that adds something; must not block, and must not throw.
using OutputCallback = std::function<void(const RequestOutput&)>;

}  // namespace easydel::serve
